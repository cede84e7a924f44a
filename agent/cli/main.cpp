// SPDX-License-Identifier: MIT
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/cli/command_line.hpp"

int main(int argc, char** argv) {
  using namespace andiron;
  // A reader that went away is an EPIPE that Console remembers.
  std::signal(SIGPIPE, SIG_IGN);
  const cli::Environment environment = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  cli::Console console(1, 2, environment);
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return static_cast<int>(cli::run(arguments, console, SystemClock(), environment));
  } catch (const std::exception& failure) {  // out of memory, or a fault of ours
    console.error(failure.what());
    return static_cast<int>(cli::ExitStatus::failed);
  }
}
