// SPDX-License-Identifier: MIT
#include "agent/core/configuration.hpp"

#include <set>
#include <utility>

#include "agent/base/log.hpp"
#include "agent/config/compile.hpp"

namespace andiron::core {
namespace {

void say_not_reloaded(const std::vector<std::string>& wrong) {
  const log::Fields fields{.error = error_name(Errc::bad_config)};
  for (const std::string& line : wrong)
    log::error(fields, "{}", line);
  log::error(fields, "the configuration stays as it was");
}

}  // namespace

void Configuration::take(config::Settings settings) {
  drop_all_but(settings.models);
  world_.settings = std::move(settings);
  world_.config_loaded = world_.clock.wall();
  if (world_.settings.agent.dry_run) warmer_.hold_nothing();
  world_.apply_budget();
  world_.engine.set_options(
      {world_.settings.stream.max_bandwidth, world_.settings.stream.io_class, 64});
  for (const config::ModelSettings& model : world_.settings.models)
    take_model(model);
  hooks_.taken();
  world_.reconcile_soon();
}

void Configuration::drop_all_but(const std::vector<config::ModelSettings>& models) {
  std::set<std::string> named;
  for (const config::ModelSettings& model : models)
    named.insert(model.name);
  std::vector<std::string> gone;
  world_.models.each([&](ModelRecord& record) {
    if (record.configured && !named.contains(record.name)) gone.push_back(record.name);
  });
  for (const std::string& name : gone) {
    ModelRecord* record = world_.models.find(name);
    record->configured = false;  // and so forgotten once it is let go of
    warmer_.drop(*record, false, [this, name] {
      if (ModelRecord* same = world_.models.find(name)) same->forget_at = world_.clock.now();
    });
  }
}

void Configuration::take_model(const config::ModelSettings& settings) {
  ModelRecord* record = world_.models.find(settings.name);
  if (record == nullptr) {
    record = &world_.models.add(settings, true);
    record->wanted = settings.preload.boot;
    return warmer_.refresh(*record, {});
  }
  const bool moved =
      record->settings.source != settings.source || record->settings.also != settings.also;
  if (record->settings.hold != settings.hold) record->requested_hold.reset();
  if (record->settings.tier != settings.tier) record->requested_tier.reset();
  record->configured = true;
  record->settings = settings;
  record->retry_after.reset();
  record->wanted = record->wanted || settings.preload.boot;
  if (moved) warmer_.take_new_source(*record);
}

void Configuration::reload(Done then) {
  if (world_.config_path.empty()) {
    const std::vector<std::string> wrong{"there is no configuration file to load"};
    say_not_reloaded(wrong);
    return then(wrong);
  }
  waiting_.push_back(std::move(then));
  if (!std::exchange(reloading_, true)) start_reload();
}

/// One at a time, for all who asked before it began: a storm of SIGHUP is two of them.
void Configuration::start_reload() {
  hooks_.reload_began();
  world_.slow.run([path = world_.config_path] { return config::compile_file(path); },
                  [this, waiting = std::exchange(waiting_, {})](config::Compiled compiled) {
                    std::vector<std::string> wrong;
                    for (const config::Diagnostic& error : compiled.errors) {
                      wrong.push_back(error.to_string());
                    }
                    if (wrong.empty()) {
                      take(std::move(compiled.settings));
                      log::info("configuration loaded: {} models", world_.settings.models.size());
                    } else {
                      say_not_reloaded(wrong);
                    }
                    for (const Done& then : waiting)
                      then(wrong);
                    reloading_ = !waiting_.empty();
                    if (reloading_) return start_reload();
                    hooks_.reload_ended();
                  });
}

}  // namespace andiron::core
