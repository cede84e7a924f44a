// SPDX-License-Identifier: MIT
#include "agent/probe/event.hpp"

namespace andiron::probe {

// No default in either switch: the compiler then names the one that was forgotten.
std::string_view to_string(EventType type) noexcept {
  switch (type) {
    case EventType::model_warmed:
      return "model.warmed";
    case EventType::model_evicted:
      return "model.evicted";
    case EventType::model_changed:
      return "model.changed";
    case EventType::model_opened:
      return "model.opened";
    case EventType::model_missing:
      return "model.missing";
    case EventType::job_failed:
      return "job.failed";
    case EventType::memory_pressure:
      return "memory.pressure";
    case EventType::lease_granted:
      return "lease.granted";
    case EventType::lease_revoked:
      return "lease.revoked";
    case EventType::lease_ended:
      return "lease.ended";
    case EventType::container_started:
      return "container.started";
    case EventType::container_stopped:
      return "container.stopped";
    case EventType::agent_degraded:
      return "agent.degraded";
  }
  return "unknown";
}

std::string_view to_string(Cause cause) noexcept {
  switch (cause) {
    case Cause::kswapd:
      return "kswapd";
    case Cause::direct_reclaim:
      return "direct-reclaim";
    case Cause::memcg_reclaim:
      return "memcg-reclaim";
    case Cause::damon:
      return "damon";
    case Cause::drop_caches:
      return "drop-caches";
    case Cause::fadvise:
      return "fadvise";
    case Cause::direct_write:
      return "direct-write";
    case Cause::truncate:
      return "truncate";
    case Cause::unlink:
      return "unlink";
    case Cause::andiron:
      return "andiron";
    case Cause::unknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace andiron::probe
