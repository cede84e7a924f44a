// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"

/// Text for a terminal: made harmless, measured, put into columns. Pure; never blocks.
namespace andiron::cli {

/// Text that cannot steer a terminal or pretend to be other text: control characters (C0, DEL, C1),
/// bytes that are no UTF-8 and characters that turn the reading direction come out as "\n", "\x1b"
/// or "\u202e". File names and other people's process names are where they come from. Escaping
/// twice changes nothing.
std::string escape_text(std::string_view text);

bool is_utf8(std::string_view text) noexcept;

/// Columns that a terminal gives it: 2 for East Asian wide characters and emoji, 0 for combining
/// marks. Of escaped text; an estimate by ranges of the Unicode table, since wcwidth(3) knows
/// nothing outside ASCII in the C locale that services and containers run in.
std::size_t display_width(std::string_view text) noexcept;

/// At most `columns` wide; what is too long ends in "...".
std::string shorten(std::string_view text, std::size_t columns);

/// Rows in columns that line up, two spaces between, no blanks at the ends of lines. The first row
/// is the heading. Cells are escaped text; `kRight` columns hold numbers.
enum class Align { left, right };
std::string render_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<Align>& columns);

/// "1.6 GB/s": powers of 1000, as storage is sold.
std::string format_rate(double bytes_per_second);

/// What an RFC 3339 time in UTC says to a person here: "10:00:03" when it is today, else
/// "2026-11-28 10:00:03", in the local time zone. What does not parse comes back escaped.
std::string format_local_time(std::string_view rfc3339, WallTime now);

}  // namespace andiron::cli
