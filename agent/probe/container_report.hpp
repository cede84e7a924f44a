// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <variant>

#include "agent/base/mailbox.hpp"
#include "agent/os/capability.hpp"
#include "agent/probe/container_event.hpp"

namespace andiron::probe {

/// What a source on a thread of its own tells the control loop: news, or how well it sees.
using ContainerReport = std::variant<ContainerEvent, os::Capability>;
using ContainerMailbox = Mailbox<ContainerReport>;

/// Reports that may wait for the loop. Past that they are dropped, and the source, which is told,
/// looks at everything again a second later.
inline constexpr std::size_t kMaxReports = 1024;

}  // namespace andiron::probe
