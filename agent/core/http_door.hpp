// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "agent/api/server.hpp"
#include "agent/core/world.hpp"
#include "agent/os/capability.hpp"

namespace andiron::core {

/// Keeps `[http]` true: serves TCP where the settings say, with the token that its file holds now.
///
/// Now and then it looks anew, whatever came before: so a port that gets free is taken, and a token
/// that is written anew counts. What is in the way is said once, and in doctor; meanwhile TCP is
/// off, since a token file that is not fit guards nothing, and the control socket goes on.
/// Thread: the control loop's. Never blocks: the file is read on the slow lane.
class HttpDoor {
 public:
  HttpDoor(World& world, api::Server& server) : world_(world), server_(server) {}

  /// The settings are new, or the same again: looks at once.
  void look();
  /// Once a second.
  void tick();
  /// The agent stops, and its server with it: looks no more.
  void stop() { stopped_ = true; }

  os::Capability capability() const { return capability_; }

 private:
  void apply(std::optional<api::BearerToken> token);
  void turn_off(const Error& why, std::string remedy);
  void report(os::Capability now);

  World& world_;
  api::Server& server_;
  os::Capability capability_{"http", os::Capability::State::off, "", ""};
  bool reading_ = false;     // the token file, on the slow lane
  bool look_again_ = false;  // the settings changed meanwhile
  bool stopped_ = false;
  int ticks_ = 0;  // since the last look
};

}  // namespace andiron::core
