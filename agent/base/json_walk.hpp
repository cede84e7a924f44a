// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace andiron {

/// One step through a JSON text.
struct JsonEvent {
  enum class Kind { begin_object, end_object, begin_array, end_array, string, natural, other };
  Kind kind;
  /// Keys from the root to this value; "" stands for a place in an array.
  const std::vector<std::string>& path;
  std::string_view text;     // of a string
  std::uint64_t number = 0;  // of a natural: a whole number from 0
  bool truth = false;        // of a `true`, which is of kind other
};

/// Walks through a JSON text of a stranger: no tree is built, nothing recurses, and no exception
/// leaves. `max_depth` counts objects and arrays inside each other. What `visit` returns as an
/// error ends the walk. Errors: bad_format for what is not JSON (with its position) or nests
/// deeper.
Result<void> walk_json(std::string_view text, std::size_t max_depth,
                       const std::function<Result<void>(const JsonEvent&)>& visit);

/// A JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD.
std::string quote_json(std::string_view text);

}  // namespace andiron
