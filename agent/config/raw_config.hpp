// SPDX-License-Identifier: MIT
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

namespace andiron::config {

/// A place in a text; lines and columns count from 1, columns in code points. 0 is the whole text.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct RawEntry;
struct RawValue;
struct RawDateTime {};  // no key of ours takes one, so its value does not matter

using RawArray = std::vector<RawValue>;
using RawTable = std::vector<RawEntry>;  // in order of position; keys are unique

/// A TOML value and where it stands: for a table with a header, where the header is.
struct RawValue {
  Position at;
  std::variant<RawDateTime, bool, std::int64_t, double, std::string, RawArray, RawTable> data;
};

struct RawEntry {
  std::string key;
  Position key_at;
  RawValue value;
};

struct RawFault {
  Position at;
  std::string message;
};

/// Syntax only. The first thing that is wrong with it, where it is not TOML.
/// Time and memory are bounded by the size of the text, stack by a fixed depth.
tl::expected<RawTable, RawFault> parse_toml(std::string_view text);

}  // namespace andiron::config
