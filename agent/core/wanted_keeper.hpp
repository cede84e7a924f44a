// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/standing_trouble.hpp"
#include "agent/core/state_file.hpp"
#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// What is wanted, in the state folder: wanted again at the next start, written whenever it
/// changes. Thread: the control loop's. Never blocks, but save_now(). On failure: says so, and
/// tries again.
class WantedKeeper {
 public:
  /// `post` runs a function on the loop, after what is ready to run now.
  using Post = std::function<void(std::function<void()>)>;
  WantedKeeper(World& world, Warmer& warmer, std::string state_dir, Post post);

  /// At start, once the settings are taken; then calls `then`. Nothing is written before.
  void load(std::function<void()> then);
  /// What was wanted is known, or known not to be there: until then a model might be warmed in a
  /// way that nobody wants.
  bool loaded() const noexcept { return loaded_; }
  /// Whatever changes at once is written at once.
  void persist_soon();
  /// Once a second.
  void tick();
  /// The agent stops: what is wanted now counts, before its jobs end. Nothing is written after it
  /// but by save_now().
  void remember();
  /// What remember() saw; blocks.
  Result<void> save_now() const;

 private:
  void restore(const std::vector<WantedModel>& models);
  void persist();
  std::vector<WantedModel> list() const;

  World& world_;
  Warmer& warmer_;
  const std::string state_dir_;
  const Post post_;
  bool loaded_ = false;
  bool posted_ = false;
  bool persisting_ = false;
  std::optional<SteadyTime> again_;  // the last try failed
  StandingTrouble trouble_;
  std::optional<std::vector<WantedModel>> at_stop_;
};

}  // namespace andiron::core
