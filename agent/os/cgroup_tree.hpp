// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace andiron::os {

/// The hierarchy of cgroups in which containers are to be seen: v2's own, or of v1 the one that
/// most runtimes put them into.
struct ProcessHierarchy {
  std::string path;
  bool v2 = false;
};

/// nullopt where there are no cgroups.
std::optional<ProcessHierarchy> find_process_hierarchy(const std::string& root = "/sys/fs/cgroup");

/// A box has some hundreds of cgroups, nested a handful deep.
inline constexpr std::size_t kMaxCgroupFolders = 4096;
inline constexpr int kMaxCgroupDepth = 8;

/// Names of the cgroups right below one, sorted. Empty where it is gone.
std::vector<std::string> child_cgroups(const std::string& folder);

/// Calls `see` for the processes of a cgroup and of those below it, which its owner may have made
/// as it likes: at most 1,024 processes of 256 cgroups. Its own come first, and among the cgroups
/// below, the one that an init system keeps itself in. `see` gets the cgroup's folder, too, and
/// ends it by true, which is what comes back then.
bool visit_processes(const std::string& folder,
                     const std::function<bool(pid_t, const std::string&)>& see);

}  // namespace andiron::os
