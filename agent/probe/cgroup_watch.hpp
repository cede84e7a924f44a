// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "agent/base/result.hpp"
#include "agent/probe/container_report.hpp"

namespace andiron::probe {

/// Containers and services of any runtime, as the kernel sees them: their cgroup appears and gets a
/// process, or loses its last. Names as os::owner_of_cgroup() knows them; where a cgroup has only
/// an id, the id is told, and somebody else has to know whose it is.
///
/// On cgroup v2 the kernel tells by inotify. v1 says nothing when a group gets its first process,
/// so that groups of interest are polled there, every kPoll. Its reports carry no process: the
/// first one that a runtime puts into a cgroup is its own helper. Thread: its own; follow() from
/// any. Never blocks its caller. On failure: tells so as the capability "cgroup-watch"; of more
/// than os::kMaxCgroupFolders cgroups the rest is not seen, which it tells too.
class CgroupWatch {
 public:
  static constexpr std::chrono::milliseconds kPoll{250};

  struct Options {
    std::string root = "/sys/fs/cgroup";
  };

  static Result<std::unique_ptr<CgroupWatch>> start(Options options,
                                                    std::shared_ptr<ContainerMailbox> reports);
  ~CgroupWatch();
  CgroupWatch(const CgroupWatch&) = delete;
  CgroupWatch& operator=(const CgroupWatch&) = delete;

  /// The names to tell of, besides all ids. With none the tree is left alone.
  void follow(std::set<std::string> names);

 private:
  class Impl;
  explicit CgroupWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace andiron::probe
