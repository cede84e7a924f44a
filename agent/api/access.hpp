// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string_view>

/// Who may make which call. Pure.
namespace andiron::api {

/// How a request came in. The control socket has file permissions to guard it; TCP has nothing.
enum class Door { control_socket, loopback, network };

/// What a request shows of a bearer token. `none_set`: there is none that would open anything.
enum class TokenState { none_set, missing, wrong, right };

enum class Verdict { allow, forbid, ask_for_token };

/// The control socket may do everything, and so may who holds the token. Others may read on
/// loopback (GET, HEAD), and nothing beyond.
Verdict authorise(Door door, std::string_view method, TokenState token) noexcept;

/// Does a Host header name this machine's loopback, with or without a port? A page of a stranger's
/// site whose name was made to lead here (DNS rebinding) still sends the stranger's name.
bool is_loopback_host(std::string_view host) noexcept;

/// Is an Origin header ("http://HOST:PORT") of the very host that the request is sent to? Browsers
/// send another one with what a page of another site asks for.
bool is_same_origin(std::string_view origin, std::string_view host) noexcept;

/// The token in "Bearer TOKEN"; nullopt for another scheme.
std::optional<std::string_view> bearer_of(std::string_view authorization) noexcept;

}  // namespace andiron::api
