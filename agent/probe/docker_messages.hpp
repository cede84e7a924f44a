// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/result.hpp"

namespace andiron::probe {

// What Docker's Engine API says (20.10 to 29, and Podman's service that speaks it), as far as we
// ask. All of it is text of a stranger: an id or a name that is none comes out empty.

/// A line of GET /events with type=container.
struct DockerEvent {
  std::string action;  // "start", "die", "rename", ...
  std::string id;
  std::string name;           // after a rename the new one
  std::uint64_t time_ns = 0;  // since 1970; 0 where it does not say
};
/// Errors: bad_format, also for an event without an action or an id.
Result<DockerEvent> parse_docker_event(std::string_view line);

/// A container of GET /containers/json.
struct DockerListed {
  std::string id;
  std::string name;  // without its slash; names that links gave it are not its own
};
/// At most `most`; errors: bad_format, too_large.
Result<std::vector<DockerListed>> parse_docker_list(std::string_view body, std::size_t most);

/// GET /containers/ID/json.
struct DockerState {
  std::string id;
  std::string name;
  std::optional<pid_t> pid;  // nullopt: it does not run
  std::optional<WallTime> started_at;
};
Result<DockerState> parse_docker_state(std::string_view body);

}  // namespace andiron::probe
