// SPDX-License-Identifier: MIT
#include "agent/core/http_door.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "agent/base/log.hpp"

namespace andiron::core {
namespace {

using State = os::Capability::State;

/// A secret that was revoked is not to count for much longer, and reading its file is cheap.
constexpr int kLookTicks = 2;

std::string remedy_of(const Error& error, const Endpoint& at) {
  if (error.code == std::errc::address_in_use) {
    return fmt::format("see who has it with `ss -ltnp 'sport = :{}'`, or take another port",
                       at.port);
  }
  if (error.code == std::errc::address_not_available) {
    return "give an address that this machine has (`ip address`)";
  }
  if (error.code == std::errc::permission_denied) {
    return "take a port above 1023, or give the agent CAP_NET_BIND_SERVICE";
  }
  return "";
}

std::string remedy_for_token(const std::string& path) {
  return fmt::format("(umask 077; openssl rand -hex 32 > {})", path);
}

}  // namespace

void HttpDoor::look() {
  if (stopped_) return;
  ticks_ = 0;
  const std::string& path = world_.settings.http.token_file;
  if (!world_.settings.http.listen || path.empty()) return apply(std::nullopt);
  if (std::exchange(reading_, true)) {
    look_again_ = true;
    return;
  }
  world_.slow.run_at(
      world_.place_of(path, {}), [path] { return api::BearerToken::read(path); },
      [this, path](Result<api::BearerToken> token) {
        reading_ = false;
        const bool outdated = world_.settings.http.token_file != path;
        if (std::exchange(look_again_, false) || outdated) return look();
        if (token) return apply(std::move(*token));
        turn_off(token.error(), remedy_for_token(path));
      });
}

void HttpDoor::tick() {
  const bool may_change =
      world_.settings.http.listen &&
      (!world_.settings.http.token_file.empty() || capability_.state != State::on);
  if (may_change && ++ticks_ >= kLookTicks && !reading_) look();
}

void HttpDoor::apply(std::optional<api::BearerToken> token) {
  if (stopped_) return;
  const auto& listen = world_.settings.http.listen;
  if (!listen) {
    server_.close_tcp();
    return report({"http", State::off, "[http] listen is not set",
                   "listen = \"127.0.0.1:9479\" serves what only reads to this machine"});
  }
  const bool everything = token.has_value();
  if (auto port = server_.listen_tcp(*listen, std::move(token)); !port) {
    return turn_off(port.error(), remedy_of(port.error(), *listen));
  }
  const char* calls = "calls that only read";
  if (everything && listen->address.is_loopback()) {
    calls = "calls that only read, and every call with the token";
  } else if (everything) {
    calls = "every call, with the token";
  }
  report({"http", State::on, fmt::format("{}: {}", listen->to_string(), calls), ""});
}

void HttpDoor::turn_off(const Error& why, std::string remedy) {
  if (stopped_) return;
  server_.close_tcp();
  report({"http", State::off, why.message(), std::move(remedy)});
}

void HttpDoor::report(os::Capability now) {
  const bool same = now.state == capability_.state && now.reason == capability_.reason;
  const bool was_on = capability_.state == State::on;
  capability_ = std::move(now);
  // While they are not all known, the agent asks for this one with the others.
  if (!world_.capabilities.empty()) world_.set_capability(capability_);
  if (same) return;
  if (capability_.state == State::on) {
    log::info("http: on {}", capability_.reason);
  } else if (world_.settings.http.listen) {
    world_.note_degraded("http: off, trying again now and then: " + capability_.reason);
  } else if (was_on) {
    log::info("http: off: {}", capability_.reason);
  }
}

}  // namespace andiron::core
