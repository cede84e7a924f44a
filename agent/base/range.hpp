// SPDX-License-Identifier: MIT
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace andiron {

/// Bytes [offset, offset + length) of a file.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t end() const noexcept { return offset + length; }
  friend auto operator<=>(const ByteRange&, const ByteRange&) = default;
};

/// Sum of the lengths, in bytes.
inline std::uint64_t total_length(const std::vector<ByteRange>& ranges) noexcept {
  std::uint64_t sum = 0;
  for (const ByteRange& range : ranges)
    sum += range.length;
  return sum;
}

}  // namespace andiron
