// SPDX-License-Identifier: MIT
#include "agent/core/world.hpp"

#include <utility>

#include "agent/policy/plan.hpp"

namespace andiron::core {

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

}  // namespace andiron::core
