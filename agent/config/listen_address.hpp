// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "agent/base/ip_address.hpp"
#include "agent/base/result.hpp"

namespace andiron::config {

/// "127.0.0.1:9479" or "[::1]:9479": a numeric address and a port from 1 to 65535. No name is
/// looked up. Errors: bad_config with what to write instead.
Result<Endpoint> parse_listen_address(std::string_view text);

}  // namespace andiron::config
