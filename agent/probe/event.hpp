// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/clock.hpp"

namespace andiron::probe {

enum class EventType {
  model_warmed,
  model_evicted,
  model_changed,
  model_opened,
  model_missing,
  job_failed,
  memory_pressure,
  lease_granted,
  lease_revoked,
  lease_ended,
  container_started,
  container_stopped,
  agent_degraded,
};

enum class Cause {
  kswapd,
  direct_reclaim,
  memcg_reclaim,
  damon,
  drop_caches,
  fadvise,
  direct_write,
  truncate,
  unlink,
  andiron,
  unknown,
};

/// Who did it. Empty strings and pid 0 where a part is not known.
struct Culprit {
  pid_t pid = 0;
  std::string comm;
  std::string cgroup;
  std::string container;
};

/// Something that happened. `seq` is given by the log that keeps it.
struct Event {
  std::uint64_t seq = 0;
  WallTime time;
  EventType type = EventType::agent_degraded;
  std::string model;
  std::string file;
  std::uint64_t bytes = 0;
  std::optional<Cause> cause;
  std::optional<Culprit> by;
  std::string detail;  // for people
};

std::string_view to_string(EventType type) noexcept;  // "model.evicted"
std::string_view to_string(Cause cause) noexcept;     // "direct-reclaim"

}  // namespace andiron::probe
