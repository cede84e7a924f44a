// SPDX-License-Identifier: MIT
#include "agent/core/job_end.hpp"

#include <chrono>
#include <string>

#include "agent/base/log.hpp"
#include "agent/base/units.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// The event and the line that say that the model is warm.
void say_warm(World& world, ModelRecord& record, const Job& job, const std::string& how,
              const std::string& detail) {
  const probe::EventType type = probe::EventType::model_warmed;
  const auto took = world.clock.now() - job.started_steady;
  record.last_load = LastLoad{job.stages, job.bytes_read, took, world.clock.wall()};
  world.note(type, record, record.bytes(), {}, detail);
  log::info({.model = record.name, .event = to_string(type), .job = job.id},
            "{}: {}, {} read in {}", record.name, how, format_bytes(job.bytes_read),
            format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(took)));
}

void note_done(World& world, ModelRecord& record, const Job& job) {
  record.ever_warmed = true;
  record.stale = false;
  record.last_error.reset();
  record.lock_limit = job.lock_limit;
  record.retry_after.reset();
  const auto resident =
      job.tier == Tier::pinned_ram ? std::optional(record.pinned_bytes) : record.resident_bytes();
  // Somebody takes the pages as fast as they come, or the rest could be locked only once others
  // have let go of theirs.
  if ((resident && *resident < record.bytes()) || job.lock_limit)
    record.back_off_from(world.clock.now());
  say_warm(world, record, job, "warm", job.lock_limit.value_or(""));
  if (job.lock_limit) {
    log::warning({.model = record.name, .job = job.id, .error = error_name(Errc::lock_limit)},
                 "{}: {} (lock_limit)", record.name, *job.lock_limit);
  }
}

void note_failed(World& world, ModelRecord& record, const Job& job) {
  const probe::EventType type = probe::EventType::job_failed;
  const Errc code = job.error->errc();
  record.back_off_from(world.clock.now());
  if (code == Errc::stale) {
    // Another file lies there now: look at it at once, and fill it when it keeps still.
    record.back_off = 0ms;
    record.retry_after = world.clock.now() + 1s;
    record.recheck_at = *record.retry_after;
  }
  if (!record.resolve_error) record.last_error = job.error;
  if (job.requested && !job.wanted_before) record.wanted = false;
  world.note(type, record, 0, {}, job.error->message());
  log::warning(
      {.model = record.name, .event = to_string(type), .job = job.id, .error = error_name(code)},
      "{}: not warmed: {} ({})", record.name, job.error->message(), error_name(code));
}

/// What was resident before a reboot has been read again, or not: nobody is told of a failure of
/// what he did not ask for, and it is not tried again.
void note_unasked(World& world, ModelRecord& record, const Job& job) {
  if (job.error) {
    if (record.before_reboot) record.before_reboot->leave(job.error->message());
    return log::info({.model = record.name, .job = job.id, .error = error_name(job.error->errc())},
                     "{}: was resident before the reboot, not read again: {}", record.name,
                     job.error->message());
  }
  if (record.before_reboot) record.before_reboot->state = BeforeReboot::State::read;
  const std::string what = "was resident before the reboot, read again";
  say_warm(world, record, job, what, what);
}

}  // namespace

void note_end(World& world, ModelRecord& record, const Job& job) {
  if (job.unasked) return note_unasked(world, record, job);
  if (job.error) return note_failed(world, record, job);
  note_done(world, record, job);
}

}  // namespace andiron::core
