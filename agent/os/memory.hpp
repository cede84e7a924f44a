// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/base/result.hpp"

namespace andiron::os {

/// The memory that this process may count on: the machine's, or less where a cgroup or container
/// limits it (v1, v2 and hybrid; every ancestor counts). A balloon shrinks MemTotal, so it is read
/// anew each time. Bytes.
struct MemoryView {
  std::uint64_t limit = 0;  // MemTotal, or the tightest cgroup limit
  std::uint64_t available =
      0;  // MemAvailable, or what the tightest cgroup leaves, file pages counted as free
  std::uint64_t mlocked = 0;  // Mlocked of meminfo
  std::uint64_t swap_total = 0;
  std::uint64_t swap_free = 0;
  std::uint64_t zfs_arc_reclaimable = 0;  // of available's short-counting: informational
  std::string limited_by;                 // "machine", or the cgroup path that is tightest
};

/// Never blocks for long; under 1 ms. `proc_root` and `cgroup_root` are for tests.
Result<MemoryView> read_memory(const std::string& proc_root = "/proc",
                               const std::string& cgroup_root = "/sys/fs/cgroup");

/// True on machines whose GPU shares the system's memory (GB10, Jetson, and other integrated GPUs
/// with no memory of their own): two copies of weights have no room there. Found from the device
/// tree and PCI; `why` says how.
struct UnifiedMemory {
  bool unified = false;
  std::string why;
};
UnifiedMemory detect_unified_memory(const std::string& sys_root = "/sys",
                                    const std::string& proc_root = "/proc");

/// RLIMIT_MEMLOCK's soft limit in bytes, or nullopt when CAP_IPC_LOCK or "unlimited" lifts it.
std::optional<std::uint64_t> memlock_limit();

}  // namespace andiron::os
