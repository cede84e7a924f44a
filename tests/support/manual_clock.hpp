// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>

#include "agent/base/clock.hpp"

namespace andiron::testing {

/// A clock that a test turns. Thread: any.
class ManualClock final : public Clock {
 public:
  SteadyTime now() const noexcept override {
    return SteadyTime(SteadyTime::duration(since_start_.load()));
  }
  WallTime wall() const noexcept override {
    // 2026-11-29T10:00:00Z, and as far from there as now() is from its start.
    return WallTime(std::chrono::seconds(1795946400)) +
           std::chrono::duration_cast<WallTime::duration>(now().time_since_epoch());
  }
  void advance(std::chrono::nanoseconds by) noexcept { since_start_.fetch_add(by.count()); }

 private:
  // It begins an hour after its epoch: nothing happened at time 0.
  std::atomic<SteadyTime::rep> since_start_{SteadyTime::duration(std::chrono::hours(1)).count()};
};

}  // namespace andiron::testing
