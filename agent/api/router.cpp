// SPDX-License-Identifier: MIT
#include "agent/api/router.hpp"

#include <cstddef>
#include <set>
#include <utility>

#include "agent/base/check.hpp"

namespace andiron::api {
namespace {

/// What an error says of a request. A target may be 64 KiB long; nobody needs all of that back.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMostEchoed = 200;
  return text.size() <= kMostEchoed ? text : text.substr(0, kMostEchoed) + "...";
}

}  // namespace

void Router::add(std::string_view method, std::string_view pattern, Handler handler) {
  for (const Route& route : routes_)
    CHECK(route.method != method || route.pattern != pattern);
  CHECK(!pattern.empty() && pattern.front() == '/' && handler != nullptr);

  Route route;
  route.method = method;
  route.pattern = pattern;
  route.handler = std::move(handler);
  std::string_view rest = pattern.substr(1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('/');
    const std::string_view piece = rest.substr(0, end);
    CHECK(!piece.empty());
    if (piece.front() == '{' && piece.back() == '}') {
      route.pieces.push_back({std::string(piece.substr(1, piece.size() - 2)), true});
    } else {
      route.pieces.push_back({std::string(piece), false});
    }
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  routes_.push_back(std::move(route));
}

bool Router::fits(const Route& route, const std::vector<std::string>& segments) {
  if (route.pieces.size() != segments.size()) return false;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Piece& piece = route.pieces[i];
    if (piece.capture ? segments[i].empty() : segments[i] != piece.text) return false;
  }
  return true;
}

bool Router::more_literal(const Route& a, const Route& b) {
  for (std::size_t i = 0; i < a.pieces.size(); ++i) {
    if (a.pieces[i].capture != b.pieces[i].capture) return !a.pieces[i].capture;
  }
  return false;
}

std::optional<Response> Router::dispatch(Request request) const {
  const Route* best = nullptr;
  std::set<std::string> allowed;
  // HEAD is GET whose answer goes without its body, which the connection sees to.
  const std::string asked = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes_) {
    if (!fits(route, request.segments)) continue;
    allowed.insert(route.method);
    if (route.method != asked) continue;
    if (best == nullptr || more_literal(route, *best)) best = &route;
  }
  if (best != nullptr) {
    Params params;
    for (std::size_t i = 0; i < best->pieces.size(); ++i) {
      const Piece& piece = best->pieces[i];
      if (piece.capture) params.emplace(piece.text, request.segments[i]);
    }
    best->handler(std::move(request), std::move(params));
    return std::nullopt;
  }
  if (allowed.empty())
    return error_response(make_error(Errc::not_found, "no call at " + shortened(request.path)));
  Response response = error_response(make_error(
      Errc::method_not_allowed, shortened(request.method) + " " + shortened(request.path)));
  for (const std::string& method : allowed)
    response.allow += (response.allow.empty() ? "" : ", ") + method;
  return response;
}

}  // namespace andiron::api
