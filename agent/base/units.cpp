// SPDX-License-Identifier: MIT
#include "agent/base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace andiron {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double factor;
};

constexpr std::array<Unit, 14> kSizeUnits{{{"", 1},
                                           {"b", 1},
                                           {"k", 1024.0},
                                           {"m", 1048576.0},
                                           {"g", 1073741824.0},
                                           {"t", 1099511627776.0},
                                           {"kib", 1024.0},
                                           {"mib", 1048576.0},
                                           {"gib", 1073741824.0},
                                           {"tib", 1099511627776.0},
                                           {"kb", 1e3},
                                           {"mb", 1e6},
                                           {"gb", 1e9},
                                           {"tb", 1e12}}};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  const std::string_view body = trim(text);
  const auto bad = [&](const char* why) {
    return make_error(Errc::bad_config, fmt::format("size \"{}\": {}", text, why));
  };
  const std::size_t digits = body.find_first_not_of("0123456789.");
  const std::string_view number = body.substr(0, digits);
  const std::string unit = digits == std::string_view::npos ? "" : lower(trim(body.substr(digits)));
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value,
                                            std::chars_format::fixed);
  if (number.empty() || error != std::errc{} || end != number.data() + number.size()) {
    return bad("not a number with a unit such as \"24GiB\"");
  }
  for (const Unit& candidate : kSizeUnits) {
    if (candidate.name != unit) continue;
    const double bytes = std::floor(value * candidate.factor);
    // 2^63: as an off_t, and exactly a double.
    if (bytes >= 9223372036854775808.0) return bad("too large");
    return Bytes{static_cast<std::uint64_t>(bytes)};
  }
  return bad("unknown unit; use B, KiB, MiB, GiB or TiB");
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  using std::chrono::milliseconds;
  const auto bad = [&](const char* why) {
    return make_error(Errc::bad_config, fmt::format("duration \"{}\": {}", text, why));
  };
  struct DurationUnit {
    std::string_view name;
    std::int64_t ms;
  };
  constexpr std::array<DurationUnit, 5> kUnits{
      {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
  // A century: far past any use, far below overflow.
  constexpr std::int64_t kLargest = 100LL * 366 * 86'400'000;

  std::string_view rest = trim(text);
  if (rest.empty()) return bad("empty");
  std::int64_t sum = 0;
  while (!rest.empty()) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{} || value < 0) return bad("not a number with a unit such as \"30m\"");
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    const std::size_t unit_length = std::min(rest.find_first_of("0123456789 "), rest.size());
    const std::string_view name = rest.substr(0, unit_length);
    std::int64_t factor = 0;
    for (const DurationUnit& unit : kUnits) {
      if (unit.name == name) factor = unit.ms;
    }
    if (factor == 0) return bad("a number needs a unit: ms, s, m, h or d");
    if (value > kLargest / factor) return bad("too long");
    sum += value * factor;
    if (sum > kLargest) return bad("too long");
    rest = trim(rest.substr(unit_length));
  }
  return milliseconds(sum);
}

std::string format_bytes(std::uint64_t count) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  if (count < kKiB) return fmt::format("{} B", count);
  double value = static_cast<double>(count);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return value < 10 ? fmt::format("{:.1f} {}", value, kNames.at(unit))
                    : fmt::format("{:.0f} {}", value, kNames.at(unit));
}

std::string format_duration(std::chrono::milliseconds duration) {
  const std::int64_t ms = duration.count();
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 60'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  if (ms < 3'600'000) return fmt::format("{}m {}s", ms / 60'000, ms / 1000 % 60);
  return fmt::format("{}h {}m", ms / 3'600'000, ms / 60'000 % 60);
}

}  // namespace andiron
