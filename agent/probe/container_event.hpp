// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/clock.hpp"

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

/// Names and ids of strangers: no runtime's is longer, and nothing else ends up in logs and events.
inline constexpr std::size_t kMaxContainerWord = 128;

/// 1 to kMaxContainerWord of [A-Za-z0-9_.:@-].
bool is_container_word(std::string_view text) noexcept;

/// 64 hexadecimal digits: what Docker, Podman, CRI-O and containerd call a container.
bool is_container_id(std::string_view text) noexcept;

}  // namespace andiron::probe
