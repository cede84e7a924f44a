// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/cli/setup_proposal.hpp"

namespace andiron::cli {

/// The proposal as andiron.toml, with its reasons as comments. Whatever the machine's names hold,
/// it is valid TOML.
std::string render_config(const Proposal& proposal, WallTime now);

/// What was found, and what would be held, for people: escaped, ends in a newline.
std::string render_report(const Proposal& proposal);

/// Folders of the stores found, for `allow_roots`: no folder inside another, at most 32.
std::vector<FoundStore> allow_roots_of(const Machine& machine);

}  // namespace andiron::cli
