// SPDX-License-Identifier: MIT
#include "agent/api/tcp_gate.hpp"

#include <fmt/format.h>

#include <string>

#include "agent/base/log.hpp"

namespace andiron::api {
namespace {

/// What a refusal repeats of a header; nobody needs 64 KiB of it back.
std::string_view shortened(const std::string& text) {
  return std::string_view(text).substr(0, 100);
}

Response forbidden(std::string what) {
  return error_response(make_error(Errc::permission_denied, std::move(what)));
}

Response unauthorized(std::string what, const char* challenge) {
  Response response = error_response(make_error(Errc::unauthorized, std::move(what)));
  response.headers.emplace_back("WWW-Authenticate", challenge);
  return response;
}

Response too_many_tries(std::chrono::seconds wait) {
  Response response = error_response(make_error(
      Errc::too_many_requests, fmt::format("wrong tokens, try again in {} s", wait.count())));
  response.headers.emplace_back("Retry-After", std::to_string(wait.count()));
  return response;
}

}  // namespace

std::optional<Response> TcpGate::refuse(const IpAddress& peer, const ParsedRequest& request,
                                        SteadyTime now) {
  const Claims& claims = request.claims;
  const std::string& method = request.request.method;
  if (claims.for_other_site || (claims.origin && !is_same_origin(*claims.origin, claims.host))) {
    return forbidden("pages of other sites may not ask here");
  }
  if (token_ && claims.authorization && !peer.is_loopback()) {
    if (const auto wait = tries_.wait(peer, now); wait.count() > 0) return too_many_tries(wait);
  }
  const TokenState token = token_state(claims);
  if (token == TokenState::right) return std::nullopt;
  const Verdict verdict = authorise(door_, method, token);
  const bool open = verdict == Verdict::allow;
  if (open && is_loopback_host(claims.host)) return std::nullopt;

  if (token == TokenState::wrong) return refuse_wrong_token(peer, now);
  if (open) {
    return forbidden(
        fmt::format("the Host header says \"{}\": without the token it has to be "
                    "127.0.0.1, [::1] or localhost",
                    shortened(claims.host)));
  }
  if (verdict == Verdict::ask_for_token) {
    return unauthorized(fmt::format("{} here needs a bearer token", shortened(method)),
                        "Bearer realm=\"andiron\"");
  }
  return forbidden(fmt::format("{}: without a token_file in [http], this address only reads",
                               shortened(method)));
}

TokenState TcpGate::token_state(const Claims& claims) const {
  if (!token_) return TokenState::none_set;
  const auto given = claims.authorization ? bearer_of(*claims.authorization) : std::nullopt;
  if (!given) return TokenState::missing;
  return token_->matches(*given) ? TokenState::right : TokenState::wrong;
}

Response TcpGate::refuse_wrong_token(const IpAddress& peer, SteadyTime now) {
  if (const auto wait = tries_.wait(peer, now); wait.count() > 0) return too_many_tries(wait);
  if (tries_.failed(peer, now)) {
    log::warning("http: {} wrong tokens from {} within a minute; it has to wait", tries_.kTries,
                 peer.to_string());
  }
  return unauthorized("that is not the token", "Bearer realm=\"andiron\", error=\"invalid_token\"");
}

}  // namespace andiron::api
