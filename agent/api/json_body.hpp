// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace andiron::api {

/// JSON text that is always valid UTF-8: bytes that are not (a file's name may hold any) become
/// U+FFFD. Does not throw for any value that JsonBody or our own code makes.
std::string dump(const nlohmann::json& value);

/// A request's body: one JSON object, or nothing, which is the empty object.
/// Each getter names its key in the bad_request it gives. A key that is absent or null is nullopt.
/// Thread: any. Never blocks. Owns: what it parsed.
class JsonBody {
 public:
  /// Bounds: the text as the server bounds it, 16 levels of nesting, no key twice at the top.
  /// Errors: bad_request.
  static Result<JsonBody> parse(std::string_view text);

  JsonBody(JsonBody&& other) noexcept;
  JsonBody& operator=(JsonBody&& other) noexcept;
  ~JsonBody();

  /// Refuses keys that are not among `known`, with the nearest of them as a hint.
  Result<void> only(std::initializer_list<std::string_view> known) const;

  /// A string without NUL bytes.
  Result<std::optional<std::string>> string(std::string_view key) const;
  Result<std::string> required_string(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  /// A whole number from 0 to `most`.
  Result<std::optional<std::uint64_t>> unsigned_integer(std::string_view key,
                                                        std::uint64_t most = UINT64_MAX) const;

  /// The object itself, for what has more structure than the getters know.
  const nlohmann::json& object() const noexcept;

 private:
  explicit JsonBody(std::unique_ptr<nlohmann::json> object);
  const nlohmann::json* find(std::string_view key) const;

  std::unique_ptr<nlohmann::json> object_;
};

}  // namespace andiron::api
