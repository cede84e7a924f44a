// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "agent/core/world.hpp"
#include "agent/os/agents.hpp"

namespace andiron::core {

/// Sees to it that of the agents of one machine, a package's on the host and a container's say, one
/// holds models: two would hold a budget each.
///
/// Who comes second caches only (World::yields_to) until the first one ends. An agent that cannot
/// see us, since its container has processes of its own, will not yield: to it we do, whoever came
/// first. Agents with a --runtime-dir of their own are left out, on both sides: they are for tries
/// and tests.
/// Thread: the control loop's. Never blocks, but for look_now().
class SingleAgent {
 public:
  explicit SingleAgent(World& world) : world_(world) {}

  /// Looks for others, now and every few seconds, if this is the machine's agent: before anything
  /// is held. Blocks: for some milliseconds, in /proc.
  void start(bool machines_agent);
  /// Once a second.
  void tick();
  const os::Capability& capability() const noexcept { return capability_; }

 private:
  using Seen = std::pair<pid_t, std::uint64_t>;
  void take(const Result<os::AgentProcesses>& found, bool at_once);
  void yield_to(const os::AgentProcess& other);
  void hold_again();
  void say(os::Capability::State state, std::string reason, std::string remedy);

  World& world_;
  bool looks_ = false;
  bool looking_ = false;
  int ticks_ = 0;             // since the last look
  std::optional<Seen> seen_;  // who was in the way at the last look
  os::Capability capability_{"single-agent", os::Capability::State::off, "", ""};
};

/// Who of the agents in sight holds in our place; null: we do. Pure.
const os::AgentProcess* holder_before_us(const os::AgentProcesses& found);

/// "andirond with pid 12 in docker container 0123456789ab", for people. Pure.
std::string describe(const os::AgentProcess& agent);

}  // namespace andiron::core
