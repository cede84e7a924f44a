// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "agent/base/clock.hpp"
#include "agent/os/cgroup_names.hpp"

namespace andiron::probe {

/// What every source of container news says, whichever runtime it watches.
struct ContainerEvent {
  enum class Kind { started, stopped };
  std::string runtime;  // "docker", "podman", "lxc", ...; "oci" where the source cannot tell
  std::string id;       // the runtime's own; empty where the source knows a name only
  std::string name;     // as people call it; empty where the source knows an id only
  Kind kind = Kind::started;
  std::optional<pid_t> pid;  // of its first process, as this machine counts: one start, one pid
  WallTime time;             // when it happened, as near as the source can tell
  friend bool operator==(const ContainerEvent&, const ContainerEvent&) = default;
};

using os::is_container_id;
using os::is_container_word;
using os::kMaxContainerWord;

}  // namespace andiron::probe
