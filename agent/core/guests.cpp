// SPDX-License-Identifier: MIT
#include "agent/core/guests.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "agent/base/guest_source.hpp"
#include "agent/os/cgroup_names.hpp"
#include "agent/os/guest_root.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// A guest has mounted its volumes by then; what comes later is found by the Observer, which looks
/// for whatever is missing, only less often.
constexpr auto kStarting = 20s;

/// Calls see(guest) for each of the model's sources that lie in one.
template <class See>
void each_guest(const config::ModelSettings& model, See see) {
  const auto one = [&](const std::string& source) {
    if (const auto inside = split_guest_source(source)) see(inside->guest);
  };
  one(model.source);
  for (const std::string& source : model.also)
    one(source);
}

}  // namespace

bool lies_in_guest(const config::ModelSettings& model, std::string_view guest) {
  bool found = false;
  each_guest(model, [&](std::string_view name) { found = found || name == guest; });
  return found;
}

std::set<std::string> Guests::take_settings() {
  names_.clear();
  for (const config::ModelSettings& model : world_.settings.models)
    each_guest(model, [&](std::string_view guest) { names_.emplace(guest); });
  std::erase_if(changed_, [&](const auto& entry) { return !names_.contains(entry.first); });
  return names_;
}

void Guests::take_event(const probe::ContainerEvent& event) {
  const os::CgroupOwner owner{event.runtime, event.id, event.name};
  if (!owner.is_guest() || !names_.contains(event.name)) return;
  const bool running = event.kind == probe::ContainerEvent::Kind::started;
  changed_[event.name] = {running, world_.clock.now()};
  look(event.name, running);
}

void Guests::look(const std::string& guest, bool running) {
  std::vector<std::string> models;
  world_.models.each([&](const ModelRecord& record) {
    // The rest is as it is to be.
    if (record.resolved.has_value() == running) return;
    if (lies_in_guest(record.settings, guest)) models.push_back(record.name);
  });
  for (const std::string& name : models) {
    ModelRecord* record = world_.models.find(name);
    if (record != nullptr) warmer_.refresh(*record, [this, name] { on_found(name); });
  }
}

/// A model that came back with its guest is not to wait for the end of a back-off, which was for
/// the time without it.
void Guests::on_found(const std::string& model) {
  ModelRecord* record = world_.models.find(model);
  if (record == nullptr || !record->resolved) return;
  record->retry_after.reset();
  record->back_off = 0ms;
  found_(model);
  world_.reconcile_soon();
}

bool Guests::coming(const config::ModelSettings& model) const {
  return std::any_of(changed_.begin(), changed_.end(), [&](const auto& entry) {
    return entry.second.running && lies_in_guest(model, entry.first);
  });
}

void Guests::tick() {
  const SteadyTime now = world_.clock.now();
  std::erase_if(changed_, [&](const auto& entry) { return now - entry.second.at > kStarting; });
  const std::map<std::string, Change> changed = changed_;  // looks may finish at once
  for (const auto& [guest, change] : changed)
    look(guest, change.running);
}

os::Capability Guests::capability() const {
  if (names_.empty()) return {"guests", os::Capability::State::off, "no model lies in a guest", ""};
  return os::probe_guests();
}

}  // namespace andiron::core
