// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/result.hpp"
#include "agent/catalog/model.hpp"
#include "agent/cli/setup_machine.hpp"

namespace andiron::cli {

/// A model with what `setup` thinks of it.
struct Candidate {
  FoundModel model;
  std::string name;    // as the config would call it: [A-Za-z0-9._:-], unique
  std::string source;  // what resolves to this very model; empty until settled
  std::vector<std::string> also;
  std::uint64_t bytes = 0;
  std::string filesystem;
  bool chosen = false;
  bool would_hold = false;   // chosen, and it fits
  std::string duplicate_of;  // the label of a better candidate with the same weights
  std::string problem;       // why it cannot be loaded; empty for none
  std::string why;           // one sentence; as unescaped as the names in it
  std::vector<std::string> cautions;
};

struct Proposal {
  Machine machine;
  std::vector<Candidate> candidates;  // chosen ones first, then by rank
  std::uint64_t limit = 0;     // memory of this machine, or what a cgroup leaves of it; 0: unknown
  std::uint64_t budget = 0;    // half of it
  std::uint64_t headroom = 0;  // what stays free
  std::uint64_t capacity = 0;  // what the chosen models may take together
  std::uint64_t chosen_bytes = 0;
  std::vector<std::string> warnings;
  std::vector<std::string> unmet;  // names asked for that come to nothing, and why
  std::string config;              // TOML; see render_config()
};

/// catalog::resolve with the places that the agent will look in.
using SourceCheck = std::function<Result<catalog::Resolved>(const std::string& source,
                                                            const std::vector<std::string>& also)>;

/// Decides which models to keep: those of `wanted` where there are any; else those that runtimes
/// have loaded now, the small ones first; else the most recently used. Never more than fits, and
/// never simply all. `check` proves that each source written down means the files that were found;
/// a name that the agent would not find, or finds in another store, becomes a path.
Proposal propose(Machine machine, const TreeReader& tree, const std::vector<std::string>& wanted,
                 const SourceCheck& check, WallTime now);

/// A config's name for a model, out of what its owner calls it; "model" where nothing is left.
std::string config_name(std::string_view label);

/// How much the chosen models may take together: half of the memory less the headroom, but an
/// eighth at least, so that a small machine keeps a small model.
std::uint64_t capacity_of(std::uint64_t limit, std::uint64_t headroom);

}  // namespace andiron::cli
