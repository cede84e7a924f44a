// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/config/settings.hpp"

namespace andiron::policy {

/// A file as the budget sees it: models that share a file share its bytes.
struct FilePart {
  std::uint64_t key = 0;  // the same number for the same inode
  std::uint64_t bytes = 0;
};

/// One model as the control loop knows it. Unknown is nullopt.
struct ModelFacts {
  std::string name;
  Priority priority = Priority::normal;
  Tier tier = Tier::page_cache;
  std::optional<Hold> wanted_hold;  // nullopt: auto; of pinned-ram, whose copies are locked, locked
  bool wanted = false;     // to be kept: preload at boot, restored, or warmed and not dropped
  bool requested = false;  // somebody waits for it: back-off and pressure do not apply
  bool rewarm = true;      // false for preload = "never": what was evicted stays away
  config::KeepAlive keep_alive;
  ModelState state = ModelState::cold;
  std::vector<FilePart> files;  // empty while it is not resolved
  std::optional<Hold> held;     // what all of it is held with now
  std::optional<SteadyTime> last_used;
  std::optional<SteadyTime> retry_after;  // back-off after an eviction, a demotion or a failure
  bool lock_limit = false;                // its last warm could not lock all of it
  bool busy = false;                      // a job runs on it
  bool ever_warmed = false;               // since it was last wanted
  /// Not wanted, and resident before a reboot all the same: to be read again, or read by now.
  bool to_read_again = false;
  bool was_read_again = false;
};

/// What the planner may know: a snapshot. Bytes.
struct Facts {
  std::vector<ModelFacts> models;
  std::uint64_t memory_available = 0;
  std::uint64_t budget = 0;
  std::uint64_t draining = 0;  // of the budget: bytes that were given up, and clients still use
  std::uint64_t headroom = 0;
  std::uint64_t locked = 0;  // by Andiron, and its copies: what memory_available lacks of it
  bool under_pressure = false;
  bool another_holds = false;  // an agent that was first: this one only caches
  bool unified_memory = false;
};

struct Step {
  enum class Kind {
    warm,        // bring in what is missing and hold it with `hold`
    demote,      // hold it with `hold` only; its pages stay while nobody wants the memory
    release,     // let go of it
    refuse,      // wanted, and not to be had: `code` and `reason` say why
    wait,        // wanted, and put off: `reason` says until when or what
    read_again,  // not wanted: bring in what is missing, in the background, and hold nothing
  };
  Kind kind = Kind::warm;
  std::string model;
  Hold hold = Hold::mapped;
  std::uint64_t bytes = 0;  // of the model's files that no model before it counts
  Errc code = Errc::no_budget;
  std::string reason;  // a sentence
};

/// Steps in the order to apply them: what frees first, then by priority.
struct Plan {
  std::vector<Step> steps;
};

std::string_view to_string(Step::Kind kind) noexcept;

/// What to do now. Pure: no clock, no files, no state; the same facts give the same plan.
///
/// Wanted models claim memory in order of priority, among equals those that hold already first, up
/// to the budget and to what leaves the headroom free. What no longer has room is demoted to
/// `cached`, what does not find room is refused. When all of that is done, one model after the
/// other is read again that was resident before a reboot, into what memory is left.
Plan plan(const Facts& facts, SteadyTime now);

/// What ram_headroom = "auto" means: the larger of 2 GiB and 10 % of the limit, and on small
/// machines never more than half of it.
std::uint64_t auto_headroom(std::uint64_t memory_limit) noexcept;

}  // namespace andiron::policy
