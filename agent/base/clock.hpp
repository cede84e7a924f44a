// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace andiron {

using SteadyTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;

/// Where time comes from, so that a test can turn it. Thread: any. Never blocks.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime now() const noexcept = 0;
  virtual WallTime wall() const noexcept = 0;
};

/// The kernel's clocks. CLOCK_MONOTONIC stands still while the machine sleeps, which is what
/// deadlines and rates want: a suspend is not an hour of idleness.
class SystemClock final : public Clock {
 public:
  SteadyTime now() const noexcept override { return std::chrono::steady_clock::now(); }
  WallTime wall() const noexcept override { return std::chrono::system_clock::now(); }
};

/// RFC 3339 in UTC with milliseconds: "2026-11-29T10:00:00.000Z".
std::string format_time(WallTime time);
/// The same, with or without a fraction of a second. Errors: bad_request.
Result<WallTime> parse_time(std::string_view text);

}  // namespace andiron
