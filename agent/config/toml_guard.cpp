// SPDX-License-Identifier: MIT
#include "agent/config/toml_guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "agent/config/utf8.hpp"

namespace andiron::config {
namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

Position position_of(std::string_view text, std::size_t offset) {
  Position at{1, 1};
  std::size_t i = text.substr(0, 3) == kUtf8Mark ? 3 : 0;
  while (i < offset) {
    if (text[i] == '\n') {
      ++at.line;
      at.column = 0;
    }
    ++at.column;
    const std::size_t length = utf8_length(text.substr(i));
    i += length == 0 ? 1 : length;
  }
  return at;
}

std::optional<RawFault> find_bad_character(std::string_view text) {
  for (const std::string_view mark : {"\xFF\xFE", "\xFE\xFF"}) {
    if (text.substr(0, 2) == mark) return RawFault{{1, 1}, "is UTF-16; save it as UTF-8"};
  }
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) return RawFault{position_of(text, i), "not valid UTF-8"};
    if (text[i] == '\0') return RawFault{position_of(text, i), "a NUL byte"};
    i += length;
  }
  return std::nullopt;
}

bool is_ascii(char c) noexcept { return static_cast<unsigned char>(c) < 0x80; }

/// Where a string ends, or what in it the parser must not see.
struct StringEnd {
  std::size_t offset = 0;
  bool fault = false;
};

/// `i` is the opening quote. One line's string ends with its line at the latest; the parser stops
/// there too, so what comes after does not matter.
StringEnd skip_string(std::string_view text, std::size_t i) {
  const char quote = text[i];
  const bool escapes = quote == '"';
  const std::string_view rest = text.substr(i);
  const bool many_lines = rest.size() >= 3 && rest[1] == quote && rest[2] == quote;
  std::size_t run = 0;  // quotes in a row
  for (i += many_lines ? 3 : 1; i < text.size(); ++i) {
    const char c = text[i];
    if (!many_lines && (c == quote || c == '\n')) return {i + 1};
    if (run >= 3 && (c != quote || run == 5)) return {i};  // """"" ends a string that ends in ""
    run = c == quote ? run + 1 : 0;
    if (c != '\\' || !escapes) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n\v\f", ++i);
    if (next != std::string_view::npos && !is_ascii(text[next])) return {next, true};
  }
  return {i};
}

std::string stray_character(std::string_view text) {
  const std::string_view character = text.substr(0, utf8_length(text));
  for (const std::string_view curly : {"\u2018", "\u2019", "\u201c", "\u201d"}) {
    if (character == curly) return "a curly quote; write a straight one";
  }
  // Not shown: it may be one that cannot be seen.
  return "a character outside of ASCII that is neither in quotes nor in a comment";
}

std::optional<RawFault> find_bad_structure(std::string_view text) {
  unsigned dots = 0;  // since something that cannot be inside a key
  for (std::size_t i = text.substr(0, 3) == kUtf8Mark ? 3 : 0; i < text.size();) {
    const char c = text[i];
    if (!is_ascii(c)) return RawFault{position_of(text, i), stray_character(text.substr(i))};
    if (c == '"' || c == '\'') {
      const StringEnd end = skip_string(text, i);
      if (end.fault) {
        return RawFault{position_of(text, end.offset), "a character outside of ASCII after \\"};
      }
      i = end.offset;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '.' && ++dots == kMaxKeyParts) {
      return RawFault{position_of(text, i),
                      fmt::format("a dotted key of more than {} parts", kMaxKeyParts)};
    }
    if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots = 0;
    ++i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<RawFault> find_unparsable(std::string_view text) {
  if (auto fault = find_bad_character(text)) return fault;
  return find_bad_structure(text);
}

}  // namespace andiron::config
