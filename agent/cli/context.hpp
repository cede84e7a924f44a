// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "agent/base/clock.hpp"
#include "agent/cli/console.hpp"

namespace andiron::cli {

/// What andironctl's exit says; part of the contract with scripts.
enum class ExitStatus { done = 0, failed = 1, usage = 2, no_agent = 3 };

/// Where the agent listens unless told otherwise.
inline constexpr const char* kDefaultSocket = "/run/andiron/control.sock";

/// Options that stand before or after any verb.
struct GlobalOptions {
  std::string socket;  // of --socket, ANDIRON_SOCKET or kDefaultSocket
  bool json = false;
};

/// What a verb runs with.
struct Context {
  GlobalOptions options;
  Console& console;
  const Clock& clock;
  const Environment& environment;
};

/// A parsed verb, ready to run. Blocks as long as its work takes.
using Verb = std::function<ExitStatus(Context&)>;

}  // namespace andiron::cli
