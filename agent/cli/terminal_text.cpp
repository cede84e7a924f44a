// SPDX-License-Identifier: MIT
#include "agent/cli/terminal_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <optional>

namespace andiron::cli {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t length = 1;
  bool valid = false;
};

/// The first character of `text`, which is not empty; an invalid one is one byte long. Overlong
/// forms, surrogates and codes past U+10FFFF are invalid: they are how filters are passed by.
Character first_character(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  std::size_t length = 0;
  char32_t code = 0;
  char32_t smallest = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2, code = lead & 0x1FU, smallest = 0x80;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3, code = lead & 0x0FU, smallest = 0x800;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4, code = lead & 0x07U, smallest = 0x10000;
  }
  if (length == 0 || length > text.size()) return {};
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  if (code < smallest || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, length, true};
}

struct CodeRange {
  char32_t first;
  char32_t last;
};

template <std::size_t N>
bool in_ranges(char32_t code, const std::array<CodeRange, N>& ranges) noexcept {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const CodeRange& r) { return code >= r.first && code <= r.last; });
}

/// Direction marks, overrides and isolates, line separators, and the invisible characters that
/// make two names look the same.
constexpr std::array<CodeRange, 6> kDeceptive{{{0x061C, 0x061C},
                                               {0x200B, 0x200F},
                                               {0x2028, 0x202E},
                                               {0x2060, 0x206F},
                                               {0xFEFF, 0xFEFF},
                                               {0xE0000, 0xE007F}}};
constexpr std::array<CodeRange, 7> kCombining{{{0x0300, 0x036F},
                                               {0x0483, 0x0489},
                                               {0x0591, 0x05BD},
                                               {0x1AB0, 0x1AFF},
                                               {0x1DC0, 0x1DFF},
                                               {0x20D0, 0x20FF},
                                               {0xFE00, 0xFE0F}}};
constexpr std::array<CodeRange, 9> kWide{{{0x1100, 0x115F},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0x1F300, 0x1F9FF},
                                          {0x20000, 0x3FFFD}}};

std::size_t width_of(const Character& c) noexcept {
  if (!c.valid) return 1;
  if (in_ranges(c.code, kCombining)) return 0;
  return in_ranges(c.code, kWide) ? 2 : 1;
}

std::string escaped(const Character& c, unsigned char byte) {
  if (!c.valid) return fmt::format("\\x{:02x}", byte);
  if (c.code == '\n') return "\\n";
  if (c.code == '\t') return "\\t";
  if (c.code == '\r') return "\\r";
  if (c.code < 0x100) return fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c.code));
  return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c.code));
}

/// Digits at [at, at + length) as a number.
std::optional<int> digits(std::string_view text, std::size_t at, std::size_t length) {
  if (text.size() < at + length) return std::nullopt;
  int value = 0;
  const char* first = text.data() + at;
  const auto [end, error] = std::from_chars(first, first + length, value);
  if (error != std::errc{} || end != first + length || value < 0) return std::nullopt;
  return value;
}

std::optional<std::time_t> parse_utc(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() <= kShape.size() || text.back() != 'Z') return std::nullopt;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != kShape[i]) return std::nullopt;
  }
  std::tm parts{};
  parts.tm_year = digits(text, 0, 4).value_or(1900) - 1900;
  parts.tm_mon = digits(text, 5, 2).value_or(1) - 1;
  parts.tm_mday = digits(text, 8, 2).value_or(1);
  parts.tm_hour = digits(text, 11, 2).value_or(0);
  parts.tm_min = digits(text, 14, 2).value_or(0);
  parts.tm_sec = digits(text, 17, 2).value_or(0);
  return ::timegm(&parts);
}

}  // namespace

std::string escape_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const bool control = c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0);
    if (!c.valid || control || in_ranges(c.code, kDeceptive)) {
      result += escaped(c, static_cast<unsigned char>(text.front()));
    } else {
      result += text.substr(0, c.length);
    }
    text.remove_prefix(c.length);
  }
  return result;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Character c = first_character(text);
    if (!c.valid) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

std::size_t display_width(std::string_view text) noexcept {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character c = first_character(text);
    width += width_of(c);
    text.remove_prefix(c.length);
  }
  return width;
}

std::string shorten(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  constexpr std::string_view kDots = "...";
  const std::size_t room = columns > kDots.size() ? columns - kDots.size() : 0;
  std::string result;
  std::size_t width = 0;
  while (!text.empty()) {
    const Character c = first_character(text);
    width += width_of(c);
    if (width > room) break;
    result += text.substr(0, c.length);
    text.remove_prefix(c.length);
  }
  return result + std::string(kDots.substr(0, std::min(columns, kDots.size())));
}

std::string render_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<Align>& columns) {
  std::vector<std::size_t> widths(columns.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string result;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i) {
      const std::string blanks(widths[i] - display_width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += columns[i] == Align::right ? blanks + row[i] : row[i] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + '\n';
  }
  return result;
}

std::string format_rate(double bytes_per_second) {
  constexpr std::array<const char*, 5> kNames{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  double value = std::max(bytes_per_second, 0.0);
  std::size_t unit = 0;
  // 999.5 would print as "1000".
  while (value >= 999.5 && unit + 1 < kNames.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0 || value >= 9.95) return fmt::format("{:.0f} {}", value, kNames.at(unit));
  return fmt::format("{:.1f} {}", value, kNames.at(unit));
}

std::string format_local_time(std::string_view rfc3339, WallTime now) {
  const std::optional<std::time_t> when = parse_utc(rfc3339);
  if (!when) return escape_text(rfc3339);
  const std::time_t now_seconds = std::chrono::system_clock::to_time_t(now);
  std::tm then_parts{};
  std::tm now_parts{};
  const std::time_t then_seconds = *when;
  ::localtime_r(&then_seconds, &then_parts);
  ::localtime_r(&now_seconds, &now_parts);
  const bool today =
      then_parts.tm_year == now_parts.tm_year && then_parts.tm_yday == now_parts.tm_yday;
  std::string result = today ? ""
                             : fmt::format("{:04}-{:02}-{:02} ", then_parts.tm_year + 1900,
                                           then_parts.tm_mon + 1, then_parts.tm_mday);
  return result +
         fmt::format("{:02}:{:02}:{:02}", then_parts.tm_hour, then_parts.tm_min, then_parts.tm_sec);
}

}  // namespace andiron::cli
