// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace andiron::api {

/// A request target taken apart. `path` is as it was sent; `segments` and `query` are decoded.
struct Target {
  std::string path;
  std::vector<std::string> segments;
  std::map<std::string, std::string> query;
};

/// Percent-decodes one piece. Bytes above 127 pass: names come from a file system, and it does not
/// care for UTF-8. Errors: bad_request for a broken escape or a NUL, which C strings further down
/// would end at.
Result<std::string> percent_decode(std::string_view text, bool plus_is_space);

/// "/v1/models/a%2Fb?x=1": the path is split first and decoded then, so that an escaped slash stays
/// inside its segment. Absolute form ("http://host/path") is taken too, as HTTP/1.1 wants it.
/// Errors: bad_request, also for a parameter that is named twice or for more than 32 of them.
/// Thread: any. Never blocks.
Result<Target> split_target(std::string_view text);

}  // namespace andiron::api
