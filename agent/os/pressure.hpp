// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::os {

/// One line of /proc/pressure/X: shares of time in percent, total in microseconds.
struct PressureLine {
  double avg10 = 0;
  double avg60 = 0;
  double avg300 = 0;
  std::uint64_t total_us = 0;
};
struct Pressure {
  PressureLine some;
  PressureLine full;
};

/// `resource` is "memory" or "io". Errors: unavailable where the kernel has no PSI or it is off
/// (opening works and reading gives EOPNOTSUPP then).
Result<Pressure> read_pressure(const std::string& resource, const std::string& proc_root = "/proc");

/// Arms a trigger: fd polls POLLPRI when "some" stall exceeds `stall` within `window`. Without
/// CAP_SYS_RESOURCE the window must be a multiple of 2 s; the text is written with its NUL, or the
/// kernel cuts a digit off. The first event after arming may be false: compare total_us.
Result<UniqueFd> arm_pressure_trigger(const std::string& resource, std::chrono::microseconds stall,
                                      std::chrono::microseconds window);

}  // namespace andiron::os
