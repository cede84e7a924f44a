// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "agent/os/capability.hpp"

namespace andiron::os {

/// What the kernel lets this process do, tried out now: cachestat, mincore, mlock, psi-memory,
/// psi-io, cgroup-memory, direct-io, populate-read and unified-memory, each once and in this order.
/// The tries with a file use one without a name in `scratch_dir` (a folder on the disk of the
/// models, or the state folder), 256 KiB, gone when this returns. Blocks: for a few small writes
/// and reads of that disk, so never on the loop.
std::vector<Capability> probe_os(const std::string& scratch_dir);

}  // namespace andiron::os
