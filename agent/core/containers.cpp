// SPDX-License-Identifier: MIT
#include "agent/core/containers.hpp"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "agent/base/log.hpp"

namespace andiron::core {
namespace {

/// As much of an id as docker ps shows.
constexpr std::size_t kShortId = 12;

/// "docker 0123456789ab", for people.
std::string describe(const probe::ContainerEvent& event) {
  return fmt::format("{} {}", event.runtime, event.id.substr(0, kShortId));
}

}  // namespace

Result<std::unique_ptr<Containers>> Containers::create(World& world, Warmer& warmer,
                                                       const std::string& runtime_dir) {
  auto reports = TRY(probe::ContainerMailbox::create());
  std::unique_ptr<Containers> made(
      new Containers(world, warmer, std::make_shared<probe::ContainerMailbox>(std::move(reports)),
                     runtime_dir + "/hook.sock"));
  [[maybe_unused]] const auto hooks = made->make_hook_socket();  // tried again, and said then
  return made;
}

Result<void> Containers::make_hook_socket() {
  hooks_.reset();
  auto made = probe::HookSocket::create(hook_path_);
  if (!made) {
    set_capability({"container-hooks", os::Capability::State::off, made.error().message(),
                    "remove what lies there"});
    return std::move(made).error();
  }
  hooks_.emplace(std::move(*made));
  say_hooks();
  return {};
}

Result<bool> Containers::restore_hooks() {
  if (hooks_ && hooks_->in_place()) return false;
  const bool removed = hooks_.has_value();
  if (removed) {
    collect_hooks();  // what came while it could be reached
    dropped_hooks_ += hooks_->dropped();
  }
  TRY(make_hook_socket());
  if (removed) log::warning("{} was removed or replaced, and is made anew", hook_path_);
  return true;
}

void Containers::say_hooks() {
  if (!hooks_) return;
  std::string reason = fmt::format("root's container runtimes may report to {}", hook_path_);
  const std::uint64_t dropped = dropped_hooks_ + hooks_->dropped();
  if (dropped + bad_hooks_ > 0) {
    reason += fmt::format("; dropped so far: {} of strangers or too long, {} that made no sense",
                          dropped, bad_hooks_);
  }
  const auto known = capabilities_.find("container-hooks");
  if (known != capabilities_.end() && known->second.reason == reason) return;
  set_capability({"container-hooks", os::Capability::State::on, std::move(reason), ""});
}

void Containers::take_settings() {
  std::map<std::string, std::set<std::string>> before = std::exchange(models_of_, {});
  std::set<std::string> names;
  for (const config::ModelSettings& model : world_.settings.models) {
    for (const std::string& container : model.preload.containers) {
      models_of_[container].insert(model.name);
      names.insert(container);
    }
  }
  const std::set<std::string> containers = names;
  names.merge(guests_.take_settings());
  set_capability(guests_.capability());
  table_.follow(names);
  for (const auto& [container, models] : models_of_) {
    if (!table_.running(container)) continue;
    for (const std::string& model : models) {
      if (!before[container].contains(model)) warm(model);
    }
  }
  for (const char* source : {"docker", "cgroup-watch"}) {
    // Until the source itself says how well it sees, which takes it some milliseconds.
    if (capabilities_.contains(source)) continue;
    set_capability(
        {source, os::Capability::State::off,
         names.empty() ? "no model has \"container:NAME\" in its preload" : "just begun to look",
         ""});
  }
  watch_docker(containers);
  watch_cgroups(names);
}

void Containers::watch_cgroups(const std::set<std::string>& names) {
  if (cgroups_ == nullptr) {
    auto started = probe::CgroupWatch::start({}, reports_);
    if (!started) {
      world_.note_degraded(started.error().message() + ", going on without cgroups");
      return set_capability(
          {"cgroup-watch", os::Capability::State::off, started.error().message(), ""});
    }
    cgroups_ = std::move(*started);
  }
  cgroups_->follow(names);
}

void Containers::watch_docker(const std::set<std::string>& names) {
  const std::optional<std::string>& socket = world_.settings.watch.docker;
  if (docker_ == nullptr || socket != docker_socket_) {
    docker_.reset();
    docker_socket_ = socket;
    if (!socket) {
      return set_capability(
          {"docker", os::Capability::State::off, "[watch] docker is \"off\"", ""});
    }
    auto started = probe::DockerWatch::start({*socket}, reports_);
    if (!started) {
      world_.note_degraded(started.error().message() + ", going on without Docker");
      return set_capability({"docker", os::Capability::State::off, started.error().message(), ""});
    }
    docker_ = std::move(*started);
  }
  docker_->follow(names);
}

void Containers::collect() {
  for (probe::ContainerReport& report : reports_->drain()) {
    if (auto* event = std::get_if<probe::ContainerEvent>(&report)) {
      guests_.take_event(*event);
      take_event(std::move(*event));
    } else {
      set_capability(std::move(std::get<os::Capability>(report)));
    }
  }
}

std::vector<std::string> Containers::take_event(probe::ContainerEvent event) {
  auto outcome = table_.take(std::move(event), world_.clock.now());
  for (const probe::ContainerEvent& news : outcome.news)
    note(news);
  for (const std::string& container : outcome.warm)
    warm_models_of(container);
  return std::move(outcome.warm);
}

void Containers::collect_hooks() {
  for (const std::string& text : hooks_->drain())
    take_hook(text);
}

void Containers::take_hook(const std::string& text) {
  auto report = probe::parse_hook_report(text, world_.clock.wall());
  if (!report) {
    ++bad_hooks_;
    log::debug("a hook's report: {} ({} of them so far)", report.error().message(), bad_hooks_);
    return;
  }
  if (models_of_.empty()) return;
  probe::ContainerEvent& event = report->event;
  if (!event.name.empty() || report->bundle.empty()) {
    take_event(std::move(event));
    return;
  }
  // Starts and stops alike, so that they stay in order.
  world_.slow.run(
      [bundle = report->bundle, id = event.id] { return probe::name_from_bundle(bundle, id); },
      [this, event](std::string name) mutable {
        event.name = std::move(name);
        take_event(std::move(event));
      });
}

Result<Containers::Reported> Containers::report(std::string_view text) {
  probe::HookReport report = TRY(probe::parse_hook_report(text, world_.clock.wall()));
  Reported reported{std::move(report.event), {}};
  if (reported.event.name.empty()) reported.event.name = reported.event.id;
  for (const std::string& container : take_event(reported.event)) {
    const auto& models = models_of_[container];
    reported.models.insert(reported.models.end(), models.begin(), models.end());
  }
  return reported;
}

void Containers::note(const probe::ContainerEvent& event) {
  const bool started = event.kind == probe::ContainerEvent::Kind::started;
  probe::Event entry;
  entry.time = world_.clock.wall();
  const auto type =
      started ? probe::EventType::container_started : probe::EventType::container_stopped;
  entry.type = type;
  entry.by = probe::Culprit{event.pid.value_or(0), "", "", event.name};
  entry.detail = describe(event);
  world_.events.append(std::move(entry));
  log::info({.event = to_string(type)}, "container {} {} ({})", event.name,
            started ? "started" : "stopped", describe(event));
}

void Containers::warm_models_of(const std::string& container) {
  const auto models = models_of_.find(container);
  if (models == models_of_.end()) return;
  for (const std::string& model : models->second)
    warm(model);
}

void Containers::warm(const std::string& model) {
  ModelRecord* record = world_.models.find(model);
  if (record == nullptr) return;
  if (!warmer_.make_way(*record)) {
    again_.insert(model);
    return;
  }
  // As if somebody waits for it, since the container does: no back-off, no pause while others (the
  // runtime, that is, which reads the same file) keep the disk busy. Wanted before, so that what
  // fails now is tried again.
  record->wanted = true;
  if (!record->resolved && guests_.coming(record->settings)) {
    awaited_.insert(model);
    return;
  }
  if (world_.memory.unified.unified && !record->requested_hold && !record->settings.hold) {
    return world_.reconcile_soon();  // the planner refuses it, and says why
  }
  if (auto job = warmer_.warm(*record, std::nullopt, true); !job) {
    log::info({.model = model, .error = error_name(job.error().errc())},
              "{}: not warmed for its container: {}", model, job.error().message());
  }
}

void Containers::on_found(const std::string& model) {
  if (awaited_.erase(model) > 0) warm(model);
}

void Containers::tick() {
  say_hooks();
  guests_.tick();
  for (const std::string& container : table_.due(world_.clock.now()))
    warm_models_of(container);
  for (const std::string& model : std::exchange(again_, {}))
    warm(model);
}

void Containers::set_capability(os::Capability capability) {
  const std::string name = capability.name;
  world_.set_capability(capability);
  capabilities_[name] = std::move(capability);
}

std::vector<os::Capability> Containers::capabilities() const {
  std::vector<os::Capability> list;
  for (const auto& [name, capability] : capabilities_)
    list.push_back(capability);
  return list;
}

}  // namespace andiron::core
