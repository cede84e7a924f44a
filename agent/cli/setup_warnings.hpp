// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/cli/setup_proposal.hpp"

namespace andiron::cli {

/// False for file systems whose files the page cache does not keep: ZFS (its ARC does), and those
/// served by a user-space program or a hypervisor.
bool keeps_page_cache(std::string_view filesystem);

/// What the owner of a model should know before keeping it.
void add_cautions(Candidate& candidate, std::uint64_t memory_limit);

/// What the owner of this machine should know: each a sentence or two, honest about what Andiron
/// cannot do for them. Names from the machine in them are not escaped.
std::vector<std::string> warnings_of(const Proposal& proposal);

}  // namespace andiron::cli
