// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/api/server.hpp"

namespace andiron::api {

/// The table of calls. It matches whole, decoded segments, so what a name holds (slashes, dots)
/// cannot move a request to another route.
/// Thread: one. Never blocks. Pure, but for the handler it calls.
class Router {
 public:
  /// What the `{names}` of a pattern stood for; never empty strings.
  using Params = std::map<std::string, std::string, std::less<>>;
  using Handler = std::function<void(Request, Params)>;

  /// `add("POST", "/v1/models/{name}/warm", ...)`. A method and pattern twice breaks an invariant
  /// of ours.
  void add(std::string_view method, std::string_view pattern, Handler handler);

  /// Calls the handler of the route that fits best (most literal segments; HEAD goes where GET
  /// does) and gives nullopt; or
  /// gives the answer: 404 not_found, or 405 method_not_allowed with the methods that the path has.
  std::optional<Response> dispatch(Request request) const;

 private:
  struct Piece {
    std::string text;  // the literal, or the capture's name
    bool capture = false;
  };
  struct Route {
    std::string method;
    std::string pattern;
    std::vector<Piece> pieces;
    Handler handler;
  };
  static bool fits(const Route& route, const std::vector<std::string>& segments);
  static bool more_literal(const Route& a, const Route& b);

  std::vector<Route> routes_;
};

}  // namespace andiron::api
