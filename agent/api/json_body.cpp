// SPDX-License-Identifier: MIT
#include "agent/api/json_body.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "agent/base/nearest_name.hpp"

namespace andiron::api {
namespace {

// The deepest body of the API has three levels. The parser keeps its own stack, but printing and
// comparing recurse, so depth is bounded before anything is built.
constexpr int kMaxDepth = 16;

// Names are hints only while they are likely slips of the hand: three edits.
// A client's key is echoed in a message and compared with ours: neither wants 64 KiB of it.
constexpr std::size_t kMaxEchoedKey = 64;

bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::string unknown_key(const std::string& key, std::initializer_list<std::string_view> known) {
  std::string words = "unknown key '" + key.substr(0, kMaxEchoedKey) + "'";
  if (key.size() > kMaxEchoedKey) return words;
  if (const auto near = nearest_name(key, {known.begin(), known.size()})) {
    words += "; did you mean '" + std::string(*near) + "'?";
  }
  return words;
}

Error wrong_type(std::string_view key, const char* wanted) {
  return make_error(Errc::bad_request, "'" + std::string(key) + "' must be " + wanted);
}

}  // namespace

std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonBody::JsonBody(std::unique_ptr<nlohmann::json> object) : object_(std::move(object)) {}
JsonBody::JsonBody(JsonBody&& other) noexcept = default;
JsonBody& JsonBody::operator=(JsonBody&& other) noexcept = default;
JsonBody::~JsonBody() = default;

Result<JsonBody> JsonBody::parse(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return JsonBody(std::make_unique<nlohmann::json>(nlohmann::json::object()));
  if (too_deep(text)) return make_error(Errc::bad_request, "the body is nested too deeply");

  using Event = nlohmann::json::parse_event_t;
  std::set<std::string> seen;
  std::optional<std::string> twice;
  const auto watch_keys = [&](int depth, Event event, nlohmann::json& parsed) {
    // nlohmann keeps the last of two equal keys and another parser the first: take neither.
    if (event == Event::key && depth == 1) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!seen.insert(key).second) twice = key;
    }
    return true;
  };
  auto object =
      std::make_unique<nlohmann::json>(nlohmann::json::parse(text, watch_keys, false, false));
  if (object->is_discarded()) return make_error(Errc::bad_request, "the body is not valid JSON");
  if (!object->is_object()) return make_error(Errc::bad_request, "the body is not a JSON object");
  if (twice) {
    return make_error(Errc::bad_request,
                      "key '" + twice->substr(0, kMaxEchoedKey) + "' given twice");
  }
  return JsonBody(std::move(object));
}

const nlohmann::json& JsonBody::object() const noexcept { return *object_; }

const nlohmann::json* JsonBody::find(std::string_view key) const {
  const auto place = object_->find(key);
  if (place == object_->end() || place->is_null()) return nullptr;
  return &*place;
}

Result<void> JsonBody::only(std::initializer_list<std::string_view> known) const {
  for (const auto& item : object_->items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end())
      return make_error(Errc::bad_request, unknown_key(item.key(), known));
  }
  return {};
}

Result<std::optional<std::string>> JsonBody::string(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  const auto* text = value->get_ptr<const std::string*>();
  if (text == nullptr) return wrong_type(key, "a string");
  if (text->find('\0') != std::string::npos) return wrong_type(key, "a string without NUL bytes");
  return std::optional<std::string>(*text);
}

Result<std::string> JsonBody::required_string(std::string_view key) const {
  std::optional<std::string> value = TRY(string(key));
  if (!value) return make_error(Errc::bad_request, "'" + std::string(key) + "' is missing");
  return std::move(*value);
}

Result<std::optional<bool>> JsonBody::boolean(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  const auto* flag = value->get_ptr<const bool*>();
  if (flag == nullptr) return wrong_type(key, "true or false");
  return std::optional<bool>(*flag);
}

Result<std::optional<std::uint64_t>> JsonBody::unsigned_integer(std::string_view key,
                                                                std::uint64_t most) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::optional<std::uint64_t>();
  const auto* number = value->get_ptr<const std::uint64_t*>();
  if (number == nullptr) return wrong_type(key, "a whole number, 0 or more");
  if (*number > most) {
    return make_error(Errc::bad_request,
                      "'" + std::string(key) + "' is past " + std::to_string(most));
  }
  return std::optional<std::uint64_t>(*number);
}

}  // namespace andiron::api
