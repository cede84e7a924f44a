// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/config/settings.hpp"
#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// Takes settings: makes the models what they say, and tells the rest of the agent. Reloads them.
/// Thread: the control loop's. Never blocks.
class Configuration {
 public:
  struct Hooks {
    /// World::settings are new.
    std::function<void()> taken;
    std::function<void()> reload_began;
    std::function<void()> reload_ended;
  };
  /// With what was wrong, a line each; with none where the settings were taken.
  using Done = std::function<void(std::vector<std::string>)>;

  Configuration(World& world, Warmer& warmer, Hooks hooks)
      : world_(world), warmer_(warmer), hooks_(std::move(hooks)) {}

  void take(config::Settings settings);
  /// Compiles the file again. What does not compile is logged, and changes nothing.
  void reload(Done then);

 private:
  void take_model(const config::ModelSettings& settings);
  void drop_all_but(const std::vector<config::ModelSettings>& models);
  void start_reload();

  World& world_;
  Warmer& warmer_;
  Hooks hooks_;
  std::vector<Done> waiting_;
  bool reloading_ = false;
};

}  // namespace andiron::core
