// SPDX-License-Identifier: MIT
#pragma once

#include "agent/cli/context.hpp"

namespace CLI {
class App;
}

namespace andiron::cli {

/// Adds `setup` with its options to the command line. When it is the verb of a command line, `verb`
/// is set to what runs it: assign it in the subcommand's callback(), as command_line.cpp does.
/// What callbacks refer to must outlive the call: keep options in a shared_ptr that they capture.
void add_setup_command(CLI::App& app, Verb& verb);

}  // namespace andiron::cli
