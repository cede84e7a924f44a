// SPDX-License-Identifier: MIT
#pragma once

#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"
#include "agent/policy/plan.hpp"

namespace andiron::core {

/// Between the facts and the plan: gathers the one, applies the other.
/// Thread: the control loop's. Never blocks.
class Reconciler {
 public:
  Reconciler(World& world, Warmer*& warmer) : world_(world), warmer_(warmer) {}

  /// The plan that run() would apply now.
  policy::Plan plan() const;
  /// Plans and applies, unless dry_run.
  void run();
  /// Somebody asks for this model: applies what makes room for it, and says with which hold it may
  /// be warmed. Errors: no_budget, no_headroom, unavailable, with the planner's reason.
  Result<Hold> admit(ModelRecord& record);

 private:
  policy::Facts facts(const ModelRecord* asked_for) const;
  void free_memory(const policy::Step& step, ModelRecord& record);

  World& world_;
  Warmer*& warmer_;
};

}  // namespace andiron::core
