// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/config/settings.hpp"

namespace andiron::policy {

/// One model as the control loop knows it. Unknown is nullopt.
struct ModelFacts {
  std::string name;
  Priority priority = Priority::normal;
  std::optional<Hold> wanted_hold;  // nullopt: auto
  bool wanted = false;              // to be kept: preload at boot, or a warm that was not dropped
  ModelState state = ModelState::cold;
  std::uint64_t bytes = 0;  // of all its files
  std::optional<std::uint64_t> resident_bytes;
  std::optional<Hold> held;      // what it is held with now
  std::uint64_t held_bytes = 0;  // counted against the budget
  std::optional<SteadyTime> last_used;
  std::optional<SteadyTime> retry_after;  // back-off after an eviction or a failure
  bool busy = false;                      // a job runs on it
};

/// What the planner may know: a snapshot. Bytes.
struct Facts {
  std::vector<ModelFacts> models;
  std::uint64_t memory_limit = 0;
  std::uint64_t memory_available = 0;
  std::uint64_t budget = 0;
  std::uint64_t headroom = 0;
  std::uint64_t used = 0;  // of the budget, reservations included
  bool under_pressure = false;
  bool unified_memory = false;
};

struct Step {
  enum class Kind { warm, demote, release, refuse };
  Kind kind = Kind::warm;
  std::string model;
  Hold hold = Hold::mapped;  // to warm with, or to demote to
  std::uint64_t bytes = 0;   // that it adds to, or frees of, the budget
  std::string reason;        // in a sentence
};

struct Plan {
  std::vector<Step> steps;  // in the order to apply them
};

std::string_view to_string(Step::Kind kind) noexcept;

/// What to do now. Pure: no clock, no files, no state; the same facts give the same plan.
Plan plan(const Facts& facts, SteadyTime now);

/// What auto headroom means: the larger of 2 GiB and 10 % of the limit, but never more than half.
std::uint64_t auto_headroom(std::uint64_t memory_limit) noexcept;

}  // namespace andiron::policy
