// SPDX-License-Identifier: MIT
#include "agent/base/json_walk.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace andiron {
namespace {

using Json = nlohmann::json;

class Walker final : public nlohmann::json_sax<Json> {
 public:
  Walker(std::size_t max_depth, const std::function<Result<void>(const JsonEvent&)>& visit)
      : max_depth_(max_depth), visit_(visit) {}

  std::optional<Error> take_error() { return std::move(error_); }

  bool null() override { return scalar({JsonEvent::Kind::other, path_, {}, 0}); }
  bool boolean(bool value) override {
    return scalar({JsonEvent::Kind::other, path_, {}, 0, value});
  }
  bool number_integer(number_integer_t) override { return null(); }
  bool number_float(number_float_t, const string_t&) override { return null(); }
  bool binary(binary_t&) override { return null(); }
  bool number_unsigned(number_unsigned_t value) override {
    return scalar({JsonEvent::Kind::natural, path_, {}, value});
  }
  bool string(string_t& value) override {
    return scalar({JsonEvent::Kind::string, path_, value, 0});
  }
  bool key(string_t& value) override {
    path_.back() = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override { return begin(JsonEvent::Kind::begin_object); }
  bool start_array(std::size_t) override { return begin(JsonEvent::Kind::begin_array); }
  bool end_object() override { return end(JsonEvent::Kind::end_object); }
  bool end_array() override { return end(JsonEvent::Kind::end_array); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = make_error(Errc::bad_format, "JSON at byte " + std::to_string(position));
    return false;
  }

 private:
  bool scalar(const JsonEvent& event) {
    Result<void> result = visit_(event);
    if (result) return true;
    error_ = std::move(result).error();
    return false;
  }
  bool begin(JsonEvent::Kind kind) {
    if (path_.size() == max_depth_) {
      error_ = make_error(Errc::bad_format, "JSON nested too deep");
      return false;
    }
    if (!scalar({kind, path_, {}, 0})) return false;
    path_.emplace_back();
    return true;
  }
  bool end(JsonEvent::Kind kind) {
    path_.pop_back();
    return scalar({kind, path_, {}, 0});
  }

  std::size_t max_depth_;
  const std::function<Result<void>(const JsonEvent&)>& visit_;
  std::vector<std::string> path_;
  std::optional<Error> error_;
};

}  // namespace

Result<void> walk_json(std::string_view text, std::size_t max_depth,
                       const std::function<Result<void>(const JsonEvent&)>& visit) {
  Walker walker(max_depth, visit);
  if (Json::sax_parse(text.begin(), text.end(), &walker)) return {};
  return walker.take_error().value_or(make_error(Errc::bad_format, "JSON"));
}

std::string quote_json(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace andiron
