// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/result.hpp"

namespace andiron::os {

/// An andirond that root runs, as /proc shows it.
struct AgentProcess {
  pid_t pid = 0;              // as numbered here
  std::uint64_t started = 0;  // in clock ticks since the boot
  /// False where its process namespace, a container's, lies below ours: then it cannot know of us.
  bool sees_us = true;
  std::string runtime_dir;  // as given on its command line; empty: the default
  std::string cgroup;       // "/docker/ab12", as our cgroup namespace has it; empty: not known
};

struct AgentProcesses {
  AgentProcess self;  // this process, whatever its name and owner
  std::vector<AgentProcess> others;
};

/// All agents in our process namespace and in those below it, which are a host's containers.
///
/// Whoever may choose the name of a program could call it andirond, so what counts is a process
/// whose user ids, the real one too, are all 0 here, and whose program has that name, where we may
/// see its program. A set-user-id program that is called through a link fails both.
/// Blocks: for microseconds a process. Errors: as of reading what /proc says of ourselves.
Result<AgentProcesses> find_agents(const std::string& proc_root = "/proc");

}  // namespace andiron::os
