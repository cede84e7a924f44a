// SPDX-License-Identifier: MIT
#include "agent/base/clock.hpp"

#include <fmt/format.h>

#include <ctime>

namespace andiron {

std::string format_time(WallTime time) {
  using namespace std::chrono;
  const auto since_epoch = duration_cast<milliseconds>(time.time_since_epoch());
  const auto whole = floor<seconds>(since_epoch);
  const std::time_t seconds_value = static_cast<std::time_t>(whole.count());
  std::tm parts{};
  ::gmtime_r(&seconds_value, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     (since_epoch - whole).count());
}

}  // namespace andiron
