// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace andiron::client {

/// A packet of the agent's, read. Which members mean something depends on `op`; keys that are not
/// known here are skipped.
struct Message {
  std::string op;  // hello, granted, refused, fds, revoke
  std::uint64_t protocol = 0;
  std::uint64_t lease = 0;
  std::uint64_t generation = 0;
  std::uint64_t fds = 0;
  std::uint64_t deadline_ms = 0;
  bool more = false;
  std::string code;
  std::string text;  // of a refusal, for people
  std::string reason;
};

/// Errors: bad_format.
Result<Message> parse_message(std::string_view packet);

/// What to ask for: a model by its name, or, where that is empty, by the descriptor that comes
/// along.
std::string lease_request(std::string_view model, std::string_view tier, std::uint32_t wait_ms);

}  // namespace andiron::client
