// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "agent/core/world.hpp"

namespace andiron::core {

/// Something that is tried again and again: its trouble is said once while it lasts, and so is the
/// end of it. Thread: the control loop's.
class StandingTrouble {
 public:
  /// What is said, before a colon and the reason, and what at the end. Both are literals.
  StandingTrouble(World& world, const char* trouble, const char* over)
      : world_(world), trouble_(trouble), over_(over) {}

  void see(const Result<void>& outcome);

 private:
  World& world_;
  const char* trouble_;
  const char* over_;
  std::string said_;  // the reason, as of last; empty: none
};

}  // namespace andiron::core
