// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/capability.hpp"

namespace andiron::os {

/// Where guests are looked for. Tests have trees of their own.
struct GuestPlaces {
  std::string cgroup_root = "/sys/fs/cgroup";
  std::string proc_root = "/proc";
};

/// The root folder of a guest that runs (LXC, Incus, systemd-nspawn: CgroupOwner::is_guest), as
/// its own processes see it, bind mounts and all. The page cache belongs to inodes, so what is
/// warmed through it is warm for the guest.
///
/// It is found by the guest's cgroup, and is /proc/PID/root of its init, else of another of its
/// processes: one that is proved to be in that cgroup while its root is opened, so that a number
/// that is given to another process is not taken for it, and whose root is not this machine's own:
/// runtimes put helpers into the cgroup, and the first process has yet to enter the guest.
/// Thread: one. Blocks: not on a disk. Owns: a descriptor, which keeps the guest's root mounted:
/// not to be kept for longer than a piece of work takes.
class GuestRoot {
 public:
  /// Errors: source_not_found (it does not run, or is starting), permission_denied (the agent may
  /// not look into processes), unavailable (there are no cgroups).
  static Result<GuestRoot> open(std::string_view guest, const GuestPlaces& places = {});

  /// Opens (O_PATH) what lies at an absolute path in the guest, if there is no symlink on the way
  /// to it; a symlink at its end is opened as one. Nothing that the guest does to its tree leads
  /// out of it. Errors: ELOOP for symlinks, or openat2(2)'s; unavailable before Linux 5.6. Blocks:
  /// as the file system there does.
  Result<UniqueFd> open_exact(const std::string& path) const;

  const std::string& guest() const noexcept { return guest_; }

 private:
  GuestRoot(std::string guest, UniqueFd fd) : guest_(std::move(guest)), fd_(std::move(fd)) {}
  std::string guest_;
  UniqueFd fd_;
};

/// Can roots of guests be opened, and paths within them? As the capability "guests".
Capability probe_guests(const GuestPlaces& places = {});

}  // namespace andiron::os
