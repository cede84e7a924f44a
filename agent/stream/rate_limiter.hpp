// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "agent/base/clock.hpp"

namespace andiron::stream {

/// A bucket of bytes, shared by all lanes: what was taken is owed, and time pays it back at the
/// rate. There is no burst: after a pause it begins empty, not with saved-up bytes.
/// Thread: any. Never sleeps: it says how long to.
class RateLimiter {
 public:
  explicit RateLimiter(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  /// 0 is no limit. What is owed stays owed, at the new rate.
  void set_rate(std::uint64_t bytes_per_second);

  /// Takes `bytes` and says how long the taker has to wait before it uses them: until what others
  /// took before is paid for. At most kLongestWait.
  std::chrono::nanoseconds take(std::uint64_t bytes, SteadyTime now);

  /// Only so that no sum overflows: 16 MiB at a byte a second would be half a year.
  static constexpr std::chrono::hours kLongestWait{24};

 private:
  std::mutex mutex_;
  std::uint64_t rate_;
  double owed_ = 0;  // bytes, as of `at_`
  SteadyTime at_{};
};

}  // namespace andiron::stream
