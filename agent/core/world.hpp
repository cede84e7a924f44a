// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/mailbox.hpp"
#include "agent/config/settings.hpp"
#include "agent/core/event_log.hpp"
#include "agent/core/model_table.hpp"
#include "agent/core/slow_lane.hpp"
#include "agent/lease/lease_table.hpp"
#include "agent/os/capability.hpp"
#include "agent/os/cgroup.hpp"
#include "agent/os/memory.hpp"
#include "agent/os/mounts.hpp"
#include "agent/stream/engine.hpp"
#include "agent/tier/ledger.hpp"
#include "agent/tier/page_cache_store.hpp"
#include "agent/tier/pinned_store.hpp"

namespace andiron::core {

/// What the machine's memory looked like a moment ago.
struct MemoryState {
  os::MemoryView view;
  std::uint64_t headroom = 0;   // bytes, from the settings and the limit
  bool under_pressure = false;  // others stall for memory
  os::UnifiedMemory unified;
};

/// The state that the parts of the core share: one owner, the control loop, and no locks. Parts
/// change what is theirs (jobs are Warmer's, samples Observer's) and read the rest.
struct World {
  World(const Clock& clock_, SlowLane& slow_, stream::Engine& engine_)
      : clock(clock_), slow(slow_), engine(engine_), ledger(0), store(ledger), pinned(ledger) {}

  const Clock& clock;
  SlowLane& slow;
  stream::Engine& engine;

  config::Settings settings;
  std::string config_path;
  WallTime config_loaded;
  std::map<std::string, std::string> environment;  // as it was at start

  MemoryState memory;
  tier::Ledger ledger;  // of the page-cache and pinned-ram tiers together
  tier::PageCacheStore store;
  tier::PinnedStore pinned;
  lease::LeaseTable leases{{}};
  ModelTable models;
  EventLog events;
  std::vector<os::Capability> capabilities;
  /// What keeps pages that are held as `protected`; where nothing does, why.
  std::shared_ptr<const os::MemoryProtection> protection;
  std::string unprotected;
  /// Another agent of this machine that holds models, so that this one holds nothing firmer than
  /// `cached`: in words. Set by SingleAgent.
  std::optional<std::string> yields_to;
  /// Counts the times that some model's files turned out to be other ones.
  std::uint64_t resolutions = 0;
  /// For people: weights that several models have, shared or twice.
  std::vector<std::string> duplicates;

  /// Asks for a reconcile soon; set by the agent.
  std::function<void()> reconcile_soon = [] {};
  /// What is wanted changed: have it written down; set by the agent.
  std::function<void()> persist_soon = [] {};

  /// Appends an event about a model, with the time of now.
  void note(probe::EventType type, const ModelRecord& record, std::uint64_t bytes = 0,
            std::string file = {}, std::string detail = {});
  /// Something works less well than it is meant to: says so in the log and as an event, once each
  /// time that it begins.
  void note_degraded(std::string_view what);
  /// What is known of a capability changed: takes the place of the entry with that name. The list
  /// as a whole is made first, so that whoever sees one sees all of it.
  void set_capability(os::Capability capability);
  /// As the model wants it, or `cached` while another agent holds models.
  Hold hold_for(const ModelRecord& record) const noexcept;
  /// Ends mappings where blocking is allowed.
  void dispose(std::vector<tier::HeldFile> files);
  void dispose(std::optional<tier::HeldFile> file);
  /// Sets headroom and budget from the settings and what memory there is now.
  void apply_budget();

  /// Reads which mounts there are: of /proc, which does not block as a disk may.
  void read_mounts();
  /// Where looking at a source blocks when it goes away, as SlowLane::run_at takes it: the network
  /// file system that it lies on, or the guest, which may have made anything of its tree. Empty for
  /// local disks, and for what only resolving would tell.
  std::string place_of(const std::string& source, const std::vector<std::string>& also) const;
  std::string place_of(const ModelRecord& record) const;

  std::vector<os::Mount> mounts;
};

}  // namespace andiron::core
