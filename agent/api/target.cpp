// SPDX-License-Identifier: MIT
#include "agent/api/target.hpp"

#include <cstddef>
#include <optional>
#include <utility>

namespace andiron::api {
namespace {

// The API's calls take two or three; more is a mistake or an attempt to make us build big maps.
constexpr std::size_t kMaxParameters = 32;

std::optional<unsigned> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

/// Takes what is before the first `separator` off `text`, and the separator with it.
std::string_view take_piece(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view piece = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return piece;
}

Result<std::vector<std::string>> split_path(std::string_view path) {
  std::vector<std::string> segments;
  if (path == "/") return segments;
  path.remove_prefix(1);
  while (true) {
    const bool last = path.find('/') == std::string_view::npos;
    segments.push_back(TRY(percent_decode(take_piece(path, '/'), false)));
    if (last) return segments;
  }
}

Result<std::map<std::string, std::string>> split_query(std::string_view text) {
  std::map<std::string, std::string> query;
  while (!text.empty()) {
    std::string_view value = take_piece(text, '&');
    if (value.empty()) continue;
    std::string name = TRY(percent_decode(take_piece(value, '='), true));
    if (name.empty()) return make_error(Errc::bad_request, "a query parameter without a name");
    if (query.size() == kMaxParameters)
      return make_error(Errc::bad_request, "too many query parameters");
    std::string decoded = TRY(percent_decode(value, true));
    const auto [place, is_new] = query.emplace(std::move(name), std::move(decoded));
    if (!is_new)
      return make_error(Errc::bad_request, "query parameter '" + place->first + "' given twice");
  }
  return query;
}

}  // namespace

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return make_error(Errc::bad_request, "a cut-off %-escape");
      const auto high = hex_digit(text[i + 1]);
      const auto low = hex_digit(text[i + 2]);
      if (!high || !low) return make_error(Errc::bad_request, "a %-escape that is not hexadecimal");
      c = static_cast<char>(*high * 16 + *low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return make_error(Errc::bad_request, "a NUL byte in the target");
    decoded.push_back(c);
  }
  return decoded;
}

Result<Target> split_target(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (text.substr(0, kScheme.size()) == kScheme) {
    const std::size_t slash = text.find('/', kScheme.size());
    text = slash == std::string_view::npos ? std::string_view("/") : text.substr(slash);
  }
  if (text.empty() || text.front() != '/')
    return make_error(Errc::bad_request, "the request target does not start with '/'");
  if (text.find('#') != std::string_view::npos)
    return make_error(Errc::bad_request, "a fragment ('#') in the request target");
  const std::string_view path = take_piece(text, '?');
  Target target;
  target.path = std::string(path);
  target.segments = TRY(split_path(path));
  target.query = TRY(split_query(text));
  return target;
}

}  // namespace andiron::api
