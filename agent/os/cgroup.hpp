// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/result.hpp"

namespace andiron::os {

/// A hierarchy of cgroups with the memory controller that this process is in.
struct MemoryHierarchy {
  std::string base;  // where it is mounted
  std::string path;  // of our cgroup, below the base: "" or "/a/b"
  bool v2 = false;
};

/// v1, v2 and hybrid; none where there are no cgroups. Roots are for tests.
std::vector<MemoryHierarchy> memory_hierarchies(const std::string& proc_root = "/proc",
                                                const std::string& cgroup_root = "/sys/fs/cgroup");

/// Bytes of a file in memory, and the cgroup that they are charged to: the one that first touched
/// them.
struct Charge {
  std::string cgroup;  // "/system.slice/ollama.service"; empty: one that is gone
  std::uint64_t bytes = 0;
};

/// The kernel's promise not to take memory that is charged to this process's cgroup while others
/// have some to give: memory.low, and memory.min, which is kept even when somebody is killed for
/// it (cgroup v2, Documentation/admin-guide/cgroup-v2.rst). It counts only as far as every cgroup
/// above promises it too: Andiron's own slice is set along, other ones are the admin's.
/// Thread: any; holds paths only.
class MemoryProtection {
 public:
  /// Errors: unavailable, with why: no v2, no memory controller, the root, not writable.
  static Result<MemoryProtection> find(const std::string& proc_root = "/proc",
                                       const std::string& cgroup_root = "/sys/fs/cgroup");

  /// Sets what is to be kept, in bytes, where it is not so already (systemd may have set it back).
  /// Gives what a cgroup above takes off it, as a sentence. Blocks for microseconds.
  /// Errors: as of the write.
  Result<std::optional<std::string>> keep(std::uint64_t low, std::uint64_t min) const;

  /// Of a mapping that is populated: what is charged to cgroups that this protection does not
  /// reach, by cgroup, most first. A sample of up to 4,096 pages. Blocks: it may walk the cgroups.
  /// Errors: unavailable (the kernel tells whom a page belongs to with CAP_SYS_ADMIN only).
  Result<std::vector<Charge>> charged_elsewhere(const MappedRegion& mapping) const;

  /// Our own, as /proc/self/cgroup has it.
  const std::string& path() const noexcept { return groups_.front().path; }

 private:
  struct Group {
    std::string path;
    std::string folder;
    bool ours = false;
  };
  MemoryProtection(std::string base, std::string proc_root, std::vector<Group> groups)
      : base_(std::move(base)), proc_root_(std::move(proc_root)), groups_(std::move(groups)) {}
  const Group& topmost_ours() const;

  std::string base_;
  std::string proc_root_;
  std::vector<Group> groups_;  // from our own upwards, without the root, which has no limits
};

}  // namespace andiron::os
