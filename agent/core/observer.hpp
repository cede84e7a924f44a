// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"
#include "agent/os/mounts.hpp"
#include "agent/probe/file_watch.hpp"

namespace andiron::core {

/// Keeps the facts true: what is resident, what changed on disk, how much memory there is.
///
/// Changes are heard from inotify and from the mount table, and polled for besides, since a network
/// file system tells nobody. Thread: the control loop's. Never blocks.
class Observer {
 public:
  static Result<std::unique_ptr<Observer>> create(World& world, Warmer& warmer);

  /// Once a second: memory, and whatever of sampling and rechecking is due.
  void tick();

  /// How much memory there is now. Under 1 ms.
  void read_memory();

  /// Measures a model's residency now, and calls `then`: when it is done, or at once when that
  /// cannot be.
  void sample(ModelRecord& record, std::function<void()> then);

  /// Was a sample taken so lately that the next one is to wait, in fairness to others?
  bool walked_lately(const ModelRecord& record) const;

  /// The model's files are known (or known not to be there): watch what would change that.
  void watch(ModelRecord& record);
  void forget(ModelRecord& record);

  int watch_fd() const noexcept { return watch_->fd(); }
  void on_file_changes();
  /// Something was mounted or unmounted.
  void on_mount_change();

 private:
  struct Looked {
    bool same = true;  // the path still leads to the file that was resolved
    FileSample sample;
  };
  Observer(World& world, Warmer& warmer, std::shared_ptr<probe::FileWatch> watch);

  static std::vector<Looked> look(const std::vector<tier::FillFile>& files,
                                  const std::vector<os::DeviceTraits>& devices,
                                  const std::vector<std::uint32_t>& device_of,
                                  const std::vector<FileSample>& before);
  void on_looked(const std::string& name, std::vector<Looked> found, SteadyTime began);
  void compare_models();
  void note_eviction(ModelRecord& record, std::uint64_t bytes);
  void read_pressure();
  void recheck(ModelRecord& record, std::chrono::milliseconds settle);
  bool sample_due(const ModelRecord& record, SteadyTime now) const;
  static std::vector<std::string> folders_to_watch(const config::ModelSettings& settings,
                                                   const std::optional<ResolvedModel>& resolved);
  void unwatch(const std::string& name, const std::vector<probe::WatchId>& ids);

  World& world_;
  Warmer& warmer_;
  std::shared_ptr<probe::FileWatch> watch_;  // inotify is thread-safe: the slow lane adds to it
  std::map<probe::WatchId, std::set<std::string>> watchers_;
  std::map<std::string, std::vector<std::function<void()>>> after_sample_;
  std::chrono::nanoseconds walk_time_{0};  // of the last round of samples
  std::uint64_t memory_stall_us_ = 0;
  std::optional<SteadyTime> stall_read_at_;
  bool watch_limit_said_ = false;
  std::uint64_t resolutions_seen_ = 0;      // of World::resolutions, at the last tick
  std::uint64_t resolutions_compared_ = 0;  // when duplicates were last looked for
  bool comparing_ = false;                  // they are looked for now
};

}  // namespace andiron::core
