// SPDX-License-Identifier: MIT
#include "agent/config/toml_string.hpp"

#include <fmt/format.h>

#include "agent/config/utf8.hpp"

namespace andiron::config {
namespace {

std::string escaped(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\t':
      return "\\t";
    case '\n':
      return "\\n";
    case '\f':
      return "\\f";
    case '\r':
      return "\\r";
    default:
      break;
  }
  if (is_control(c)) return fmt::format("\\u{:04X}", static_cast<unsigned>(c));
  return std::string(1, c);
}

}  // namespace

std::string to_toml_string(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      result += "\xEF\xBF\xBD";
    } else if (length == 1) {
      result += escaped(text.front());
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result + '"';
}

}  // namespace andiron::config
