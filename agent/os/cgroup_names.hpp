// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace andiron::os {

/// Names and ids of strangers: no runtime's is longer, and nothing else ends up in logs and events.
inline constexpr std::size_t kMaxContainerWord = 128;

/// 1 to kMaxContainerWord of [A-Za-z0-9_.:@-].
bool is_container_word(std::string_view text) noexcept;

/// 64 hexadecimal digits: what Docker, Podman, CRI-O and containerd call a container.
bool is_container_id(std::string_view text) noexcept;

/// Whose a cgroup is, by its name. One of id and name is set.
struct CgroupOwner {
  std::string runtime;
  std::string id;
  std::string name;
  /// Has it a root folder of its own, and a name that is its alone: an LXC guest, or a machine of
  /// systemd-nspawn?
  bool is_guest() const noexcept { return runtime == "lxc" || runtime == "machine"; }
  friend bool operator==(const CgroupOwner&, const CgroupOwner&) = default;
};

/// The container or service of a cgroup, given the names of the folder above it and its own:
/// "docker-ID.scope", "libpod-ID.scope", "crio-ID.scope", "cri-containerd-ID.scope", "docker/ID",
/// "lxc.payload.NAME", "lxc/NAME", "machine-NAME.scope", "systemd-nspawn@NAME.service",
/// "NAME.service". nullopt for slices, for the helpers that runtimes keep beside a container, and
/// for the rest. Pure.
std::optional<CgroupOwner> owner_of_cgroup(std::string_view parent, std::string_view name);

}  // namespace andiron::os
