// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"
#include "agent/probe/container_event.hpp"

namespace andiron::core {

/// Models whose files lie in guests ("guest:NAME:..."). A file that is held keeps the file system
/// that it lies on alive, and with it the guest's volume: so all of them are let go of as their
/// guest stops, which makes them `missing`. They are looked for again as it starts.
/// Only the kernel's word counts (CgroupWatch), not what hooks or clients report.
/// Thread: the control loop's. Never blocks.
class Guests {
 public:
  /// `found` hears of each model that is there again.
  Guests(World& world, Warmer& warmer, std::function<void(const std::string&)> found)
      : world_(world), warmer_(warmer), found_(std::move(found)) {}

  /// World::settings is new. Gives the guests to hear of.
  std::set<std::string> take_settings();
  /// Something that started or stopped, guest or not.
  void take_event(const probe::ContainerEvent& event);
  /// Once a second.
  void tick();

  /// Has a guest of the model's started so lately that its files may only be about to come?
  bool coming(const config::ModelSettings& model) const;

  /// Can guests be looked into? For `doctor`; off where no model lies in one.
  os::Capability capability() const;

 private:
  /// A guest that changed a moment ago. What is found of it may not be so any longer: a start is
  /// told with the first process, which enters the guest later; and a look that was under way when
  /// the guest stopped may have found it running.
  struct Change {
    bool running = false;
    SteadyTime at;
  };
  void look(const std::string& guest, bool running);
  void on_found(const std::string& model);

  World& world_;
  Warmer& warmer_;
  const std::function<void(const std::string&)> found_;
  std::set<std::string> names_;
  std::map<std::string, Change> changed_;
};

/// Has the model files in that guest, as its sources say?
bool lies_in_guest(const config::ModelSettings& model, std::string_view guest);

}  // namespace andiron::core
