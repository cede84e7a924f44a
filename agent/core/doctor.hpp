// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "agent/os/capability.hpp"

namespace andiron::core {

/// What the machine allows, found by use. Blocks: for some small reads and writes in scratch_dir.
std::vector<os::Capability> find_local_capabilities(const std::string& scratch_dir);

/// What this agent serves: its socket's access, and the parts that this version does not have.
std::vector<os::Capability> agent_capabilities(bool group_missing, const std::string& socket);

}  // namespace andiron::core
