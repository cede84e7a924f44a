// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/guests.hpp"
#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"
#include "agent/probe/cgroup_watch.hpp"
#include "agent/probe/container_report.hpp"
#include "agent/probe/container_table.hpp"
#include "agent/probe/docker_watch.hpp"
#include "agent/probe/hook_report.hpp"
#include "agent/probe/hook_socket.hpp"

namespace andiron::core {

/// Warms the models of a container as it starts, whoever tells of that, and keeps the events
/// "container.started" and "container.stopped". Only containers that some model's `preload` names,
/// and guests that a model lies in, are followed. Thread: the control loop's. Never blocks.
class Containers {
 public:
  /// Makes hook.sock in the runtime folder; where that cannot be, `doctor` says so, and
  /// restore_hooks() why.
  static Result<std::unique_ptr<Containers>> create(World& world, Warmer& warmer,
                                                    const std::string& runtime_dir);

  /// World::settings and its models are new: follows what they name. A model that names a container
  /// that runs already is warmed.
  void take_settings();

  /// Reports of sources: readable, then collect().
  int fd() const noexcept { return reports_->fd(); }
  void collect();
  /// Reports of hooks: readable, then collect_hooks(). -1 where there is no socket.
  int hook_fd() const noexcept { return hooks_ ? hooks_->fd() : -1; }
  void collect_hooks();
  /// Where the hooks' socket was removed or replaced, or could not be made, makes it anew. True
  /// when it did: hook_fd() is another one then. The caller owns the runtime folder.
  Result<bool> restore_hooks();

  struct Reported {
    probe::ContainerEvent event;
    std::vector<std::string> models;  // that are warmed because of it
  };
  /// A report that came over the control socket. Its bundle is not looked into: who may ask for a
  /// warm-up may not have root read files for him. Errors: bad_request.
  Result<Reported> report(std::string_view text);
  /// Once a second.
  void tick();

  /// How well each source sees, for `doctor`.
  std::vector<os::Capability> capabilities() const;

 private:
  Containers(World& world, Warmer& warmer, std::shared_ptr<probe::ContainerMailbox> reports,
             std::string hook_path)
      : world_(world),
        warmer_(warmer),
        reports_(std::move(reports)),
        guests_(world, warmer, [this](const std::string& model) { on_found(model); }),
        hook_path_(std::move(hook_path)) {}

  void watch_docker(const std::set<std::string>& names);
  void watch_cgroups(const std::set<std::string>& names);
  Result<void> make_hook_socket();
  void say_hooks();
  void take_hook(const std::string& text);
  /// Gives the containers whose models are to be warmed, and has them warmed.
  std::vector<std::string> take_event(probe::ContainerEvent event);
  void note(const probe::ContainerEvent& event);
  void warm_models_of(const std::string& container);
  void warm(const std::string& model);
  /// A model's guest has come so far that its files are there.
  void on_found(const std::string& model);
  void set_capability(os::Capability capability);

  World& world_;
  Warmer& warmer_;
  std::shared_ptr<probe::ContainerMailbox> reports_;
  Guests guests_;
  probe::ContainerTable table_;
  std::map<std::string, std::set<std::string>> models_of_;  // container to models
  std::set<std::string> again_;    // models whose job winds up: they are warmed after it
  std::set<std::string> awaited_;  // models to be warmed once they are found in their guest
  std::map<std::string, os::Capability> capabilities_;
  std::optional<std::string> docker_socket_;
  std::unique_ptr<probe::DockerWatch> docker_;
  std::unique_ptr<probe::CgroupWatch> cgroups_;
  const std::string hook_path_;
  std::optional<probe::HookSocket> hooks_;
  std::uint64_t bad_hooks_ = 0;      // reports that were none
  std::uint64_t dropped_hooks_ = 0;  // of sockets before this one
};

}  // namespace andiron::core
