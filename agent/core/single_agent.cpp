// SPDX-License-Identifier: MIT
#include "agent/core/single_agent.hpp"

#include <fmt/format.h>

#include <string_view>
#include <tuple>

#include "agent/base/log.hpp"
#include "agent/core/runtime_dir.hpp"
#include "agent/os/cgroup_names.hpp"
#include "agent/os/privilege.hpp"

namespace andiron::core {
namespace {

using State = os::Capability::State;

/// A look reads a line of each process: milliseconds where there are hundreds.
constexpr int kLookTicks = 5;
/// As much of an id as docker ps shows.
constexpr std::size_t kShortId = 12;

bool is_machines(const os::AgentProcess& agent) {
  return agent.runtime_dir.empty() || agent.runtime_dir == kMachineRuntimeDir;
}

std::optional<os::CgroupOwner> owner_of(const std::string& cgroup) {
  const std::size_t name = cgroup.rfind('/');
  if (name == std::string::npos) return std::nullopt;
  const std::string above = cgroup.substr(0, name);
  return os::owner_of_cgroup(above.substr(above.rfind('/') + 1), cgroup.substr(name + 1));
}

std::string remedy_for(const os::AgentProcess& other) {
  const auto owner = owner_of(other.cgroup);
  std::string which = fmt::format("process {}", other.pid);
  if (owner && !owner->id.empty()) which = "container " + owner->id.substr(0, kShortId);
  if (owner && owner->runtime == "systemd") which = owner->name + ".service";
  return "let one agent run: stop this one, or " + which;
}

}  // namespace

const os::AgentProcess* holder_before_us(const os::AgentProcesses& found) {
  const os::AgentProcess* holder = nullptr;
  // Blind ones first: among those that see each other, all come to the same answer.
  const auto rank = [](const os::AgentProcess& one) {
    return std::tuple(one.sees_us, one.started, one.pid);
  };
  for (const os::AgentProcess& other : found.others) {
    if (!is_machines(other) || rank(other) > rank(found.self)) continue;
    if (holder == nullptr || rank(other) < rank(*holder)) holder = &other;
  }
  return holder;
}

std::string describe(const os::AgentProcess& agent) {
  std::string text = fmt::format("andirond with pid {}", agent.pid);
  const auto owner = owner_of(agent.cgroup);
  if (owner && !owner->id.empty()) {
    return text + fmt::format(" in {} container {}", owner->runtime, owner->id.substr(0, kShortId));
  }
  if (owner && owner->runtime == "systemd") return text + " of " + owner->name + ".service";
  if (owner) return text + fmt::format(" in {} {}", owner->runtime, owner->name);
  if (agent.cgroup.empty()) return text;
  return text + " in cgroup " + agent.cgroup;
}

void SingleAgent::start(bool machines_agent) {
  looks_ = machines_agent;
  if (looks_) return take(os::find_agents(), true);
  say(State::off, "not looked for: this agent has a --runtime-dir of its own", "");
}

void SingleAgent::tick() {
  if (!looks_ || looking_ || ++ticks_ < kLookTicks) return;
  ticks_ = 0;
  looking_ = true;
  world_.slow.run([] { return os::find_agents(); },
                  [this](const Result<os::AgentProcesses>& found) {
                    looking_ = false;
                    take(found, false);
                  });
}

/// `at_once`: else one who is in the way counts once it was so twice, since `andirond --version`
/// and an agent that does not get up are gone a moment later.
void SingleAgent::take(const Result<os::AgentProcesses>& found, bool at_once) {
  if (!found) {
    return say(State::degraded, "other agents cannot be seen: " + found.error().message(), "");
  }
  const os::AgentProcess* other = holder_before_us(*found);
  const auto seen =
      other == nullptr ? std::nullopt : std::optional(Seen(other->pid, other->started));
  const bool again = std::exchange(seen_, seen) == seen;
  if (other != nullptr) {
    if (at_once || again) yield_to(*other);
    return;
  }
  if (world_.yields_to) hold_again();
  for (const os::AgentProcess& younger : found->others) {
    if (!is_machines(younger)) continue;
    return say(State::on, describe(younger) + " came later, and leaves holding to this agent", "");
  }
  if (os::in_first_process_namespace()) return say(State::on, "no other agent on this machine", "");
  say(State::degraded,
      "only this container's processes can be seen: an agent of the host sees this one, and leaves "
      "holding to it, but one in another container would not",
      "run the container with --pid=host");
}

void SingleAgent::yield_to(const os::AgentProcess& other) {
  const std::string who = describe(other);
  const bool news = world_.yields_to != who;
  world_.yields_to = who;
  say(State::degraded,
      fmt::format("{} {}: until it ends, this agent holds nothing firmer than \"cached\"", who,
                  other.sees_us ? "was here first" : "cannot see this one"),
      remedy_for(other));
  if (!news) return;
  world_.note_degraded(capability_.reason);
  world_.reconcile_soon();
}

/// What was not held because of the other one is to be held now, and not when some wait ends.
void SingleAgent::hold_again() {
  log::info("{} is gone: holding again", *world_.yields_to);
  world_.yields_to.reset();
  world_.models.each([](ModelRecord& record) {
    record.lock_limit.reset();
    record.retry_after.reset();
  });
  world_.reconcile_soon();
}

void SingleAgent::say(State state, std::string reason, std::string remedy) {
  capability_ = {"single-agent", state, std::move(reason), std::move(remedy)};
  world_.set_capability(capability_);
}

}  // namespace andiron::core
