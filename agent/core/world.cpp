// SPDX-License-Identifier: MIT
#include "agent/core/world.hpp"

#include <string_view>
#include <utility>

#include "agent/base/guest_source.hpp"
#include "agent/base/log.hpp"
#include "agent/policy/plan.hpp"

namespace andiron::core {
namespace {

/// How os::device_traits names the lanes of network file systems: what is known of a model before
/// it is resolved, its mount, is to mean the same place as after.
constexpr std::string_view kNetwork = "net:";

}  // namespace

void World::note(probe::EventType type, const ModelRecord& record, std::uint64_t bytes,
                 std::string file, std::string detail) {
  probe::Event event;
  event.time = clock.wall();
  event.type = type;
  event.model = record.name;
  event.bytes = bytes;
  event.file = std::move(file);
  event.detail = std::move(detail);
  events.append(std::move(event));
}

void World::note_degraded(std::string_view what) {
  probe::Event event;
  event.time = clock.wall();
  event.type = probe::EventType::agent_degraded;
  event.detail = what;
  log::warning({.event = to_string(event.type)}, "{}", what);
  events.append(std::move(event));
}

void World::set_capability(os::Capability capability) {
  if (capabilities.empty()) return;  // not looked at yet; the list then takes it along
  for (os::Capability& known : capabilities) {
    if (known.name != capability.name) continue;
    known = std::move(capability);
    return;
  }
  capabilities.push_back(std::move(capability));
}

Hold World::hold_for(const ModelRecord& record) const noexcept {
  return yields_to ? Hold::cached : record.wanted_hold();
}

void World::dispose(std::vector<tier::HeldFile> files) {
  if (files.empty()) return;
  slow.run([files = std::move(files)]() mutable { files.clear(); });
}

void World::dispose(std::optional<tier::HeldFile> file) {
  if (!file) return;
  std::vector<tier::HeldFile> files;
  files.push_back(std::move(*file));
  dispose(std::move(files));
}

void World::apply_budget() {
  const std::uint64_t limit = memory.view.limit;
  ledger.set_budget(settings.budget.ram.of(limit));
  memory.headroom = settings.budget.ram_headroom ? settings.budget.ram_headroom->of(limit)
                                                 : policy::auto_headroom(limit);
}

void World::read_mounts() {
  auto found = os::read_mounts();
  if (!found) {
    log::warning("mounts cannot be read, going on with those known: {}", found.error().message());
    return;
  }
  mounts = std::move(*found);
}

std::string World::place_of(const std::string& source, const std::vector<std::string>& also) const {
  const auto place = [this](const std::string& path) -> std::string {
    if (const auto inside = split_guest_source(path)) return join_guest_source(inside->guest, "");
    const os::Mount* mount = path.starts_with('/') ? os::mount_at(path, mounts) : nullptr;
    if (mount == nullptr || !os::is_network_type(mount->type)) return {};
    return std::string(kNetwork).append(mount->device);
  };
  std::string found = place(source);
  for (auto path = also.begin(); found.empty() && path != also.end(); ++path)
    found = place(*path);
  return found;
}

std::string World::place_of(const ModelRecord& record) const {
  if (record.resolved) {
    for (const os::DeviceTraits& device : record.resolved->devices) {
      if (device.lane.starts_with(kNetwork)) return device.lane;
    }
  }
  return place_of(record.settings.source, record.settings.also);
}

}  // namespace andiron::core
