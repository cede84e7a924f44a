// SPDX-License-Identifier: MIT
#include "agent/config/settings.hpp"

#include <algorithm>

namespace andiron::config {

std::uint64_t Amount::of(std::uint64_t whole) const noexcept {
  if (!percent) return bytes.count;
  // In long double, whose 64 bits of mantissa hold every whole exactly.
  const long double share = static_cast<long double>(whole) * (*percent / 100.0L);
  return std::min(whole, static_cast<std::uint64_t>(std::max(share, 0.0L)));
}

}  // namespace andiron::config
