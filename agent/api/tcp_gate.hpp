// SPDX-License-Identifier: MIT
// Of the server's own; not for users of api.
#pragma once

#include <optional>

#include "agent/api/access.hpp"
#include "agent/api/bearer_token.hpp"
#include "agent/api/request_reader.hpp"
#include "agent/api/try_limiter.hpp"
#include "agent/base/clock.hpp"
#include "agent/base/ip_address.hpp"

namespace andiron::api {

/// Guards a TCP listener: says which requests are not let through, and what they are told instead.
///
/// A peer beyond loopback that failed too often is told to wait before its token is looked at. All
/// users of this machine share one address, though, and one of them must not lock out the others:
/// there a right token is always taken, and waiting is only for wrong ones.
/// Thread: the loop's. Never blocks.
class TcpGate {
 public:
  TcpGate(Door door, std::optional<BearerToken> token) : door_(door), token_(std::move(token)) {}

  /// nullopt lets it through.
  std::optional<Response> refuse(const IpAddress& peer, const ParsedRequest& request,
                                 SteadyTime now);
  const std::optional<BearerToken>& token() const noexcept { return token_; }

 private:
  TokenState token_state(const Claims& claims) const;
  Response refuse_wrong_token(const IpAddress& peer, SteadyTime now);

  const Door door_;
  const std::optional<BearerToken> token_;
  TryLimiter tries_;
};

}  // namespace andiron::api
