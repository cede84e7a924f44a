// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace andiron::probe {

/// Whose a cgroup is, by its name. One of id and name is set.
struct CgroupOwner {
  std::string runtime;
  std::string id;
  std::string name;
  friend bool operator==(const CgroupOwner&, const CgroupOwner&) = default;
};

/// The container or service of a cgroup, given the names of the folder above it and its own:
/// "docker-ID.scope", "libpod-ID.scope", "crio-ID.scope", "cri-containerd-ID.scope", "docker/ID",
/// "lxc.payload.NAME", "lxc/NAME", "machine-NAME.scope", "NAME.service". nullopt for slices, for
/// the helpers that runtimes keep beside a container, and for the rest. Pure.
std::optional<CgroupOwner> owner_of_cgroup(std::string_view parent, std::string_view name);

}  // namespace andiron::probe
