// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string_view>

namespace andiron::config {

/// Length in bytes (1 to 4) of the UTF-8 sequence that `text` starts with; 0 where it is not one:
/// empty, cut off, overlong, a surrogate, or past U+10FFFF.
std::size_t utf8_length(std::string_view text) noexcept;

/// C0 controls and DEL, tab included: what could steer a terminal or break a log line.
constexpr bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace andiron::config
