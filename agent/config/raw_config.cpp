// SPDX-License-Identifier: MIT
// The only file that knows toml++.
#include "agent/config/raw_config.hpp"

#include <string_view>

namespace {
/// toml++ has assertions that text can break ("[*" does in 3.3). With NDEBUG they would be
/// assumptions, which is worse: the optimiser believes them. So here they are on in every build,
/// and an exception of this file brings them out of the parser, whose functions allow it.
struct ParserAssertion {};
[[noreturn]] void parser_assertion_failed() { throw ParserAssertion{}; }
}  // namespace
#undef NDEBUG
#define TOML_ASSERT(expression) \
  (static_cast<bool>(expression) ? static_cast<void>(0) : parser_assertion_failed())

// Arrays and inline tables within each other. The parser recurses on them; ours are two deep.
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "agent/config/toml_guard.hpp"
#include "agent/config/utf8.hpp"

namespace andiron::config {
namespace {

Position to_position(const toml::source_region& region) {
  return {region.begin.line, region.begin.column};
}

RawValue convert(const toml::node& node, Position fallback);

RawTable convert_table(const toml::table& table) {
  RawTable result;
  result.reserve(table.size());
  for (const auto& [key, node] : table) {
    const Position key_at = to_position(key.source());
    result.push_back({std::string(key.str()), key_at, convert(node, key_at)});
  }
  std::sort(result.begin(), result.end(),
            [](const RawEntry& a, const RawEntry& b) { return a.key_at < b.key_at; });
  return result;
}

/// `fallback` is for tables that no header and no brace opened, such as `a` in `a.b = 1`.
RawValue convert(const toml::node& node, Position fallback) {
  RawValue result;
  result.at = to_position(node.source());
  if (result.at.line == 0) result.at = fallback;
  if (const toml::table* table = node.as_table()) {
    result.data = convert_table(*table);
  } else if (const toml::array* array = node.as_array()) {
    RawArray values;
    values.reserve(array->size());
    for (const toml::node& element : *array)
      values.push_back(convert(element, result.at));
    result.data = std::move(values);
  } else if (const auto* text = node.as_string()) {
    result.data = text->get();
  } else if (const auto* integer = node.as_integer()) {
    result.data = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    result.data = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    result.data = boolean->get();
  }
  return result;
}

/// The parser's words quote the text: nothing of it may reach a terminal raw, nor a sequence that
/// its bound of 512 bytes cut off.
std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0 || is_control(text.front())) {
      result += '?';
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

/// The line at which the parser's assertion breaks: the first one up to which the text does it.
Position find_broken_line(std::string_view text) {
  std::vector<std::size_t> line_ends;
  for (std::size_t i = text.find('\n'); i < text.size(); i = text.find('\n', i + 1))
    line_ends.push_back(i + 1);
  const auto broken =
      std::partition_point(line_ends.begin(), line_ends.end(), [&](std::size_t end) {
        try {
          const toml::parse_result ignored = toml::parse(text.substr(0, end));
          return true;
        } catch (const ParserAssertion&) {
          return false;
        }
      });
  return {static_cast<std::uint32_t>(broken - line_ends.begin() + 1), 1};
}

}  // namespace

tl::expected<RawTable, RawFault> parse_toml(std::string_view text) try {
  if (auto fault = find_unparsable(text)) return tl::unexpected(std::move(*fault));
  const toml::parse_result parsed = toml::parse(text);
  if (parsed.failed()) {
    const toml::parse_error& error = parsed.error();
    std::string words = printable(error.description());
    if (words.starts_with("Error")) words.front() = 'e';
    return tl::unexpected(RawFault{to_position(error.source()), "not valid TOML: " + words});
  }
  return convert_table(parsed.table());
} catch (const ParserAssertion&) {
  return tl::unexpected(RawFault{find_broken_line(text), "not valid TOML"});
}

}  // namespace andiron::config
