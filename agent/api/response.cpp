// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "agent/api/json_body.hpp"
#include "agent/api/server.hpp"

namespace andiron::api {

unsigned http_status(Errc code) noexcept {
  switch (code) {
    case Errc::model_not_found:
    case Errc::source_not_found:
    case Errc::not_found:
      return 404;
    case Errc::outside_roots:
    case Errc::permission_denied:
      return 403;
    case Errc::bad_request:
    case Errc::bad_config:
      return 400;
    case Errc::not_regular_file:
    case Errc::symlink_loop:
    case Errc::bad_format:
    case Errc::truncated:
    case Errc::incomplete_shards:
      return 422;
    case Errc::no_budget:
    case Errc::no_headroom:
    case Errc::lock_limit:
    case Errc::stale:
    case Errc::cancelled:
    case Errc::already_running:
      return 409;
    case Errc::unauthorized:
      return 401;
    case Errc::too_many_requests:
      return 429;
    case Errc::method_not_allowed:
      return 405;
    case Errc::too_large:
      return 413;
    case Errc::unavailable:
      return 503;
    case Errc::timeout:
      return 504;
    case Errc::io_error:
      return 500;
  }
  return 500;
}

Response error_response(const Error& error) {
  const Errc code = error.errc();
  Response response;
  response.status = http_status(code);
  response.body =
      dump({{"error", {{"code", error_name(code)}, {"message", error.message()}}}}) + "\n";
  return response;
}

}  // namespace andiron::api
