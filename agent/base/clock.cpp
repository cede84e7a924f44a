// SPDX-License-Identifier: MIT
#include "agent/base/clock.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
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

Result<WallTime> parse_time(std::string_view text) {
  using namespace std::chrono;
  const auto bad = [&] { return make_error(Errc::bad_request, fmt::format("time \"{}\"", text)); };
  // YYYY-MM-DDTHH:MM:SS, then perhaps .fff, then Z.
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  if (text.size() < kShape.size() + 1 || text.back() != 'Z') return bad();
  std::array<int, 6> parts{};
  std::size_t part = 0;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] != '0') {
      if (text[i] != kShape[i]) return bad();
      ++part;
    } else if (text[i] < '0' || text[i] > '9') {
      return bad();
    } else {
      parts[part] = parts[part] * 10 + (text[i] - '0');
    }
  }
  const std::string_view fraction = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  int millis = 0;
  if (!fraction.empty()) {
    if (fraction[0] != '.' || fraction.size() < 2 || fraction.size() > 10) return bad();
    int factor = 100;
    for (const char c : fraction.substr(1)) {
      if (c < '0' || c > '9') return bad();
      millis += (c - '0') * factor;
      factor /= 10;
    }
  }
  const year_month_day date{year(parts[0]), month(static_cast<unsigned>(parts[1])),
                            day(static_cast<unsigned>(parts[2]))};
  // What 64 bits of nanoseconds reach: Docker writes the year 1 for a container that never started.
  if (parts[0] < 1678 || parts[0] > 2261) return bad();
  if (!date.ok() || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return bad();
  return WallTime(sys_days(date) + hours(parts[3]) + minutes(parts[4]) + seconds(parts[5]) +
                  milliseconds(millis));
}

}  // namespace andiron
