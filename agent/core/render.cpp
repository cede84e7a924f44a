// SPDX-License-Identifier: MIT
#include "agent/core/render.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/core/version.hpp"

namespace andiron::core::render {
namespace {

using json = nlohmann::json;

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

json optional_bytes(const std::optional<std::uint64_t>& bytes) {
  return bytes ? json(*bytes) : json(nullptr);
}

/// Locked bytes of a model's files, by smaps when each was filled; what is locked cannot go since.
std::uint64_t locked_bytes(const World& world, const ModelRecord& record) {
  std::uint64_t sum = 0;
  for (const tier::FileKey& key : record.keys()) {
    if (const tier::HeldFile* held = world.store.find(key)) sum += held->locked_bytes;
  }
  return sum;
}

json page_cache(const World& world, const ModelRecord& record) {
  const auto hold = world.store.hold_of(record.name, record.keys());
  json tier{{"resident_bytes",
             record.resolved ? optional_bytes(record.resident_bytes()) : json(std::uint64_t{0})},
            {"locked_bytes", locked_bytes(world, record)},
            {"hold", hold ? json(to_string(*hold)) : json(nullptr)}};
  return tier;
}

json pinned_ram(const World& world, const ModelRecord& record) {
  json tier{{"resident_bytes", record.pinned_bytes}, {"leases", world.leases.count(record.name)}};
  if (record.pinned_bytes == 0) return tier;
  std::uint64_t locked = 0;
  std::uint64_t huge = 0;
  for (const tier::FileKey& key : record.keys()) {
    if (const tier::PinnedFile* copy = world.pinned.find(key)) {
      locked += copy->locked_bytes;
      huge += copy->huge_bytes;
    }
  }
  tier["locked_bytes"] = locked;
  tier["huge_bytes"] = huge;
  if (!record.pinned_path.empty()) tier["path"] = record.pinned_path;
  return tier;
}

/// As it is written in the configuration.
json preload(const config::Preload& preload) {
  json list = json::array();
  if (preload.boot) list.push_back("boot");
  for (const std::string& container : preload.containers)
    list.push_back("container:" + container);
  if (preload.never) list.push_back("never");
  return list;
}

json memory_tier(const World& world) {
  return {{"used_bytes", world.ledger.used()},
          {"budget_bytes", world.ledger.budget()},
          {"headroom_bytes", world.memory.headroom},
          {"available_bytes", world.memory.view.available}};
}

/// It shares the page cache's budget.
json pinned_tier(const World& world) {
  json tier = memory_tier(world);
  tier["used_bytes"] = world.pinned.bytes();
  tier["draining_bytes"] = world.ledger.draining();
  tier["leases"] = world.leases.size();
  return tier;
}

json stages(const LastLoad& load) {
  return {{"locate_s", seconds(load.stages.locate)},
          {"read_s", seconds(load.stages.read)},
          {"place_s", seconds(load.stages.place)},
          {"verify_s", seconds(load.stages.verify)},
          {"total_s", seconds(load.total)},
          {"bytes", load.bytes},
          {"at", format_time(load.at)}};
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  if (part == whole) return fmt::format("all of its {}", format_bytes(whole));
  if (part == 0) return fmt::format("none of its {}", format_bytes(whole));
  return fmt::format("{} of its {}", format_bytes(part), format_bytes(whole));
}

std::string state_sentence(const World& world, const ModelRecord& record) {
  const std::uint64_t bytes = record.bytes();
  switch (record.state()) {
    case ModelState::warming:
      return "It is being warmed now.";
    case ModelState::missing:
    case ModelState::error:
      if (record.resolve_error) return fmt::format("{}.", record.resolve_error->message());
      return fmt::format("The last try to warm it failed: {}.",
                         record.last_error ? record.last_error->message() : "for no known reason");
    case ModelState::stale:
      return "Its files changed. The old bytes were let go of; the new ones are taken when they "
             "have been quiet for a moment.";
    case ModelState::cold:
    case ModelState::partial:
    case ModelState::warm:
      break;
  }
  if (record.pinned_bytes > 0) {
    const std::size_t leases = world.leases.count(record.name);
    return fmt::format("It is {}: {} is in pinned RAM, to be read at {}{}.",
                       to_string(record.state()), share(record.pinned_bytes, bytes),
                       record.pinned_path.empty() ? "no place yet" : record.pinned_path,
                       leases == 0   ? ""
                       : leases == 1 ? ", and one client has a lease on it"
                                     : fmt::format(", and {} clients have leases on it", leases));
  }
  const auto resident = record.resident_bytes();
  if (!resident) {
    for (const FileSample& sample : record.samples) {
      if (!sample.resident && !sample.unknown.empty()) {
        return fmt::format("How much of it is resident cannot be known: {}.", sample.unknown);
      }
    }
    return "Its residency has not been measured yet.";
  }
  const auto hold = world.store.hold_of(record.name, record.keys());
  return fmt::format("It is {}: {} is in the page cache, {}.", to_string(record.state()),
                     share(*resident, bytes),
                     hold ? fmt::format("held as {}", to_string(*hold)) : "and nothing holds it");
}

std::string wanted_sentence(const ModelRecord& record) {
  if (record.cancelled) return "Its last warm was cancelled, so it is left alone until asked for.";
  if (!record.wanted) {
    if (record.settings.preload.boot) {
      return "It was let go of; preload = \"boot\" brings it back when the agent starts.";
    }
    return record.settings.preload.never
               ? "It is loaded only when asked for (preload = \"never\")."
               : "Nobody asked for it to be kept: warm it, or set preload = \"boot\".";
  }
  if (record.settings.preload.boot) return "It is to be kept warm: preload = \"boot\" says so.";
  return "It is to be kept warm, since it was asked for and not dropped.";
}

std::string before_reboot_sentence(const BeforeReboot& before, bool now) {
  const std::string was =
      fmt::format("Before the reboot {} was resident", share(before.resident, before.bytes));
  switch (before.state) {
    case BeforeReboot::State::waiting:
      return was + (now ? "; it is read again now."
                        : "; it is read again when there is nothing else to do.");
    case BeforeReboot::State::read:
      return was + "; it was read again.";
    case BeforeReboot::State::left:
      return fmt::format("{}; it is not read again: {}.", was, before.why);
  }
  return was;
}

}  // namespace

json error(const Error& failure) {
  return {{"code", error_name(failure.errc())}, {"message", failure.message()}};
}

json model(const World& world, const ModelRecord& record) {
  return {{"name", record.name},
          {"source", record.settings.source},
          {"files", record.resolved ? record.resolved->source.files.size() : 0},
          {"bytes", record.bytes()},
          {"state", to_string(record.state())},
          {"priority", to_string(record.settings.priority)},
          {"preload", preload(record.settings.preload)},
          {"want",
           {{"tier", to_string(record.wanted_tier())},
            {"hold", record.wanted ? json(to_string(record.wanted_hold())) : json(nullptr)}}},
          {"tiers",
           {{"page-cache", page_cache(world, record)},
            {"pinned-ram", pinned_ram(world, record)},
            {"vram", json::array()}}},
          {"evictions", {{"count", record.evictions}, {"bytes", record.evicted_bytes}}},
          {"last_used", record.last_used ? json(format_time(*record.last_used)) : json(nullptr)}};
}

json model_detail(const World& world, const ModelRecord& record) {
  json body = model(world, record);
  json files = json::array();
  for (std::size_t i = 0; record.resolved && i < record.resolved->source.files.size(); ++i) {
    const catalog::ModelFile& file = record.resolved->source.files[i];
    const tier::HeldFile* held = world.store.find(tier::key_of(file.identity));
    const bool sampled = i < record.samples.size();
    files.push_back(
        {{"path", file.path},
         {"bytes", file.identity.size},
         {"resident_bytes", sampled ? optional_bytes(record.samples[i].resident) : json(nullptr)},
         {"locked_bytes", held != nullptr ? held->locked_bytes : 0},
         {"hold", held != nullptr ? json(to_string(held->hold)) : json(nullptr)},
         {"companion", file.companion},
         {"device", record.resolved->devices[record.resolved->device_of[i]].lane}});
  }
  body["files_detail"] = std::move(files);
  body["last_load"] = record.last_load ? stages(*record.last_load) : json(nullptr);
  const Error* failure = record.resolve_error ? &*record.resolve_error
                         : record.last_error  ? &*record.last_error
                                              : nullptr;
  body["last_error"] = failure != nullptr ? error(*failure) : json(nullptr);
  std::vector<std::string> notes = record.notes;
  if (record.resolved) {
    notes.insert(notes.end(), record.resolved->source.notes.begin(),
                 record.resolved->source.notes.end());
  }
  body["notes"] = notes;
  body["explain"] = explain(world, record);
  return body;
}

std::vector<std::string> explain(const World& world, const ModelRecord& record) {
  std::vector<std::string> sentences{state_sentence(world, record), wanted_sentence(record)};
  const auto say = [&](std::string sentence) { sentences.push_back(std::move(sentence)); };
  if (const auto& before = record.before_reboot) {
    say(before_reboot_sentence(*before, record.job != 0));
  }
  if (!record.plan_note.empty()) say(fmt::format("The planner: {}.", record.plan_note));
  if (record.lock_limit) {
    say(fmt::format("Its hold is not whole (lock_limit): {}.", *record.lock_limit));
  }
  if (record.last_load) {
    const LastLoad& load = *record.last_load;
    say(
        fmt::format("It was last loaded at {}: {} were missing and took {:.2f} s (locating {:.2f}, "
                    "reading {:.2f}, placing {:.2f}, verifying {:.2f}).",
                    format_time(load.at), format_bytes(load.bytes), seconds(load.total),
                    seconds(load.stages.locate), seconds(load.stages.read),
                    seconds(load.stages.place), seconds(load.stages.verify)));
  }
  if (record.evictions > 0) {
    say(
        fmt::format("Pages of it were evicted {} times since the agent started, {} in all; "
                    "`andironctl events` lists when.",
                    record.evictions, format_bytes(record.evicted_bytes)));
  }
  if (record.last_error && !record.resolve_error && record.state() != ModelState::error) {
    say(fmt::format("The last failure was: {} ({}).", record.last_error->message(),
                    error_name(record.last_error->errc())));
  }
  if (record.resolved) {
    for (const std::string& note : record.resolved->source.notes)
      say(note);
    for (const std::string& note : record.notes)
      say(note);
  }
  return sentences;
}

json models(const World& world) {
  json list = json::array();
  world.models.each([&](const ModelRecord& record) { list.push_back(model(world, record)); });
  return list;
}

json capabilities(const World& world) {
  json list = json::array();
  for (const os::Capability& capability : world.capabilities) {
    const char* state = capability.state == os::Capability::State::on         ? "on"
                        : capability.state == os::Capability::State::degraded ? "degraded"
                                                                              : "off";
    list.push_back({{"name", capability.name},
                    {"state", state},
                    {"reason", capability.reason},
                    {"remedy", capability.remedy}});
  }
  return list;
}

json status(const World& world, const JobTable& jobs, SteadyTime started) {
  json lanes = json::array();
  for (const stream::LaneStatus& lane : world.engine.status()) {
    lanes.push_back({{"lane", lane.lane},
                     {"device", lane.device},
                     {"queued", lane.queued},
                     {"busy", lane.busy},
                     {"silent_s", seconds(lane.silent_for)}});
  }
  return {{"version", kVersion},
          {"pid", ::getpid()},
          {"uptime_s", seconds(world.clock.now() - started)},
          {"config", {{"path", world.config_path}, {"loaded", format_time(world.config_loaded)}}},
          {"dry_run", world.settings.agent.dry_run},
          {"tiers",
           {{"page-cache", memory_tier(world)},
            {"pinned-ram", pinned_tier(world)},
            {"vram", json::array()}}},
          {"memory",
           {{"limit_bytes", world.memory.view.limit},
            {"available_bytes", world.memory.view.available},
            {"limited_by", world.memory.view.limited_by},
            {"mlocked_bytes", world.memory.view.mlocked},
            {"under_pressure", world.memory.under_pressure}}},
          {"models", models(world)},
          {"jobs", jobs.running()},
          {"notes", world.duplicates},
          {"lanes", std::move(lanes)},
          {"slow_lane", {{"queued", world.slow.queued()}, {"stuck_threads", world.slow.stuck()}}},
          {"capabilities", capabilities(world)}};
}

json job(const Job& job, const ModelRecord* record) {
  const std::uint64_t total =
      std::max(job.control->total(), record != nullptr ? record->bytes() : 0);
  json body{{"id", job.id},
            {"model", job.model},
            {"state", to_string(job.state)},
            {"requested", job.requested},
            {"paused", job.control->paused()},
            {"done_bytes", std::min(job.control->done(), total)},
            {"total_bytes", total},
            {"started", format_time(job.started)}};
  if (job.error) body["error"] = error(*job.error);
  return body;
}

json jobs(World& world, const JobTable& jobs) {
  json list = json::array();
  for (const auto& [id, entry] : jobs.all()) {
    list.push_back(job(*entry, world.models.find(entry->model)));
  }
  return list;
}

json progress(const World& world, const Job& running, const ModelRecord* record, bool joined) {
  json line = job(running, record);
  line["job"] = running.id;
  line.erase("id");
  line["joined"] = joined;
  if (!running.ended()) {
    line["state"] = running.state == JobState::resolving ? "resolving" : "running";
    return line;
  }
  if (record != nullptr) line["model"] = model(world, *record);
  if (running.lock_limit) {
    line["warning"] = {{"code", error_name(Errc::lock_limit)}, {"message", *running.lock_limit}};
  }
  return line;
}

json event(const probe::Event& event) {
  json body{{"seq", event.seq},
            {"time", format_time(event.time)},
            {"type", to_string(event.type)},
            {"model", event.model.empty() ? json(nullptr) : json(event.model)},
            {"file", event.file.empty() ? json(nullptr) : json(event.file)},
            {"bytes", event.bytes},
            {"cause", event.cause ? json(to_string(*event.cause)) : json(nullptr)},
            {"by", nullptr}};
  if (event.by) {
    body["by"] = {{"pid", event.by->pid},
                  {"comm", event.by->comm},
                  {"cgroup", event.by->cgroup},
                  {"container", event.by->container}};
  }
  if (!event.detail.empty()) body["detail"] = event.detail;
  return body;
}

json plan(const policy::Plan& plan, bool dry_run) {
  json steps = json::array();
  for (const policy::Step& step : plan.steps) {
    json line{{"kind", to_string(step.kind)},
              {"model", step.model},
              {"hold", to_string(step.hold)},
              {"bytes", step.bytes},
              {"reason", step.reason}};
    if (step.kind == policy::Step::Kind::refuse) line["code"] = error_name(step.code);
    steps.push_back(std::move(line));
  }
  return {{"steps", std::move(steps)}, {"dry_run", dry_run}};
}

}  // namespace andiron::core::render
