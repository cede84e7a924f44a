// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "agent/core/world.hpp"

namespace andiron::core {

/// Keeps what the kernel promises our cgroup (os::MemoryProtection) at what the settings want, and
/// says in World what fills may count on.
/// Thread: the control loop's. Blocks for microseconds, in the kernel's cgroup files.
class ProtectionKeeper {
 public:
  explicit ProtectionKeeper(World& world) : world_(world) {}

  /// Once a second: another program, systemd above all, may have set it back.
  void tick();
  /// As of the last tick.
  const os::Capability& capability() const noexcept { return capability_; }

 private:
  struct Wish {
    std::uint64_t low = 0;
    std::uint64_t min = 0;
  };
  Wish wish() const;
  void say(os::Capability::State state, std::string reason, std::string remedy);

  World& world_;
  bool looked_ = false;
  std::shared_ptr<const os::MemoryProtection> found_;
  std::string not_found_;
  os::Capability capability_;
};

}  // namespace andiron::core
