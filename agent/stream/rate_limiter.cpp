// SPDX-License-Identifier: MIT
#include "agent/stream/rate_limiter.hpp"

#include <algorithm>
#include <utility>

namespace andiron::stream {

using Seconds = std::chrono::duration<double>;

void RateLimiter::set_rate(std::uint64_t bytes_per_second) {
  const std::lock_guard lock(mutex_);
  rate_ = bytes_per_second;
}

std::chrono::nanoseconds RateLimiter::take(std::uint64_t bytes, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  // Lanes read the clock before they get here, so `now` may lie a little before `at_`.
  const SteadyTime then = std::exchange(at_, std::max(at_, now));
  if (rate_ == 0) {
    owed_ = 0;
    return std::chrono::nanoseconds(0);
  }
  const auto rate = static_cast<double>(rate_);
  owed_ = std::max(0.0, owed_ - Seconds(at_ - then).count() * rate);
  const double wait = owed_ / rate;
  owed_ += static_cast<double>(bytes);
  if (wait >= Seconds(kLongestWait).count()) return kLongestWait;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(wait));
}

}  // namespace andiron::stream
