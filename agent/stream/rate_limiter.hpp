// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "agent/base/clock.hpp"

namespace andiron::stream {

/// A token bucket in bytes, shared by all lanes. Thread: any. Never sleeps: it says how long to.
class RateLimiter {
 public:
  explicit RateLimiter(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  void set_rate(std::uint64_t bytes_per_second);  // 0 is no limit

  /// Takes `bytes` and says how long the taker has to wait before it uses them.
  std::chrono::nanoseconds take(std::uint64_t bytes, SteadyTime now);

 private:
  std::mutex mutex_;
  std::uint64_t rate_;
  SteadyTime free_at_{};  // when what was given out so far is paid for
};

}  // namespace andiron::stream
