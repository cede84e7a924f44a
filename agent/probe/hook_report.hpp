// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/probe/container_event.hpp"

namespace andiron::probe {

/// The most that a hook may say: what the control socket takes as well.
inline constexpr std::size_t kMaxHookReport = 64 * 1024;

struct HookReport {
  ContainerEvent event;  // `name` is empty where the report has none
  std::string bundle;    // the container's OCI bundle, an absolute path; empty where it is not told
};

/// A container's state as an OCI runtime gives it to a hook ({id, status, pid, bundle,
/// annotations}), and the same with "name" and "runtime" as people may send it. Keys that we do not
/// know are passed over. "creating", "created", "running" and "started" are a start; "stopped" and
/// "exited" a stop. Errors: bad_request, in words for who wrote it.
Result<HookReport> parse_hook_report(std::string_view text, WallTime now);

/// What the container is called, from what lies with its bundle: Podman writes names beside its
/// containers, others into annotations, and some set the host name. Empty where none is found.
/// Blocks: reads three small files. Only for a bundle that a runtime of root's told.
std::string name_from_bundle(const std::string& bundle, const std::string& id);

}  // namespace andiron::probe
