// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/cli/context.hpp"

namespace andiron::cli {

/// A command line, understood: something to run, or something to print and exit with.
struct Invocation {
  GlobalOptions options;  // socket as given by --socket only; empty where it was not
  Verb verb;              // empty: print `text` and exit with `status`
  ExitStatus status = ExitStatus::done;
  std::string text;
};

/// Pure but for what validators look at. `arguments` without the program's name.
Invocation parse_command_line(const std::vector<std::string>& arguments);

/// The whole program: parses, runs, and turns failures to write into an exit status.
/// Thread: the main one. SIGPIPE must be ignored.
ExitStatus run(const std::vector<std::string>& arguments, Console& console, const Clock& clock,
               const Environment& environment);

}  // namespace andiron::cli
