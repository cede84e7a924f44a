// SPDX-License-Identifier: MIT
#pragma once

#include "agent/base/ip_address.hpp"
#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::api {

/// A TCP socket that listens there: non-blocking, close-on-exec. On "[::]", IPv4 comes in too.
/// Errors: bind's own (EADDRINUSE, EADDRNOTAVAIL, EACCES), each with the address in words.
/// Never blocks.
Result<UniqueFd> listen_on(const Endpoint& at);

/// Where it listens, its port also where the kernel chose it.
Result<Endpoint> endpoint_of(int socket);

/// Who connected; and sees to it that one who vanished without a word is noticed in a minute, and
/// that small answers are not held back.
Result<IpAddress> take_tcp_client(int socket);

}  // namespace andiron::api
