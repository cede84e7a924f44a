// SPDX-License-Identifier: MIT
#include "agent/core/protection_keeper.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace andiron::core {
namespace {

/// The agent's own memory is charged to the same cgroup and would else take from the models'.
constexpr std::uint64_t kOwnMemory = 64 * kMiB;
constexpr const char* kRemedy =
    "run andirond as the unit andirond.service, or in a cgroup v2 of its own that it may write to";

}  // namespace

void ProtectionKeeper::tick() {
  using State = os::Capability::State;
  if (!std::exchange(looked_, true)) {
    if (auto found = os::MemoryProtection::find()) {
      found_ = std::make_shared<const os::MemoryProtection>(std::move(*found));
    } else {
      not_found_ = found.error().message();
    }
  }
  const bool off = world_.settings.budget.protection == config::Protection::off;
  world_.protection = off ? nullptr : found_;
  world_.unprotected = off ? "[budget] protection is \"off\"" : not_found_;
  if (!found_) return say(State::off, not_found_, kRemedy);

  const Wish wanted = wish();
  const auto kept = found_->keep(wanted.low, wanted.min);
  if (!kept) {
    world_.protection = nullptr;
    world_.unprotected = kept.error().message();
    return say(State::off, world_.unprotected, kRemedy);
  }
  if (off) return say(State::off, world_.unprotected, "");
  if (*kept) return say(State::degraded, **kept, "raise it there, or move the agent out of there");
  say(State::on,
      fmt::format("by {} of {}", wanted.min > 0 ? "memory.min" : "memory.low", found_->path()), "");
}

/// low promises little and is there for all that the budget allows; min can get somebody killed,
/// and is for what is held with it.
ProtectionKeeper::Wish ProtectionKeeper::wish() const {
  if (world_.yields_to) return {};  // what is only cached is anybody's
  switch (world_.settings.budget.protection) {
    case config::Protection::off:
      return {};
    case config::Protection::low:
      return {world_.ledger.budget() + kOwnMemory, 0};
    case config::Protection::min:
      return {0, world_.store.protected_bytes() + kOwnMemory};
  }
  return {};
}

void ProtectionKeeper::say(os::Capability::State state, std::string reason, std::string remedy) {
  const bool news = capability_.reason != reason;
  if (news && state == os::Capability::State::degraded) {
    world_.note_degraded("hold protected is weaker than it should be: " + reason);
  }
  capability_ = {"protected-hold", state, std::move(reason), std::move(remedy)};
  if (news) world_.set_capability(capability_);
}

}  // namespace andiron::core
