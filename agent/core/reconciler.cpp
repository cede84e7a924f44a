// SPDX-License-Identifier: MIT
#include "agent/core/reconciler.hpp"

#include <map>

#include "agent/base/log.hpp"
#include "agent/core/last_boot.hpp"

namespace andiron::core {
namespace {

void say_not_warmed(const ModelRecord& record, const Error& error) {
  log::warning({.model = record.name, .error = error_name(error.errc())}, "{}: {}", record.name,
               error.message());
}

}  // namespace

policy::Facts Reconciler::facts(const ModelRecord* asked_for) const {
  policy::Facts facts;
  const os::MemoryView& memory = world_.memory.view;
  facts.memory_available = memory.available;
  facts.budget = world_.ledger.budget();
  facts.draining = world_.ledger.draining();
  facts.headroom = world_.memory.headroom;
  facts.locked = world_.store.locked_bytes() + world_.pinned.bytes();
  facts.under_pressure = world_.memory.under_pressure;
  facts.another_holds = world_.yields_to.has_value();
  facts.unified_memory = world_.memory.unified.unified;
  // Equal for equal inodes; a copy is not the file.
  std::map<std::pair<bool, tier::FileKey>, std::uint64_t> numbers;
  world_.models.each([&](const ModelRecord& record) {
    policy::ModelFacts model;
    model.name = record.name;
    model.priority = record.settings.priority;
    model.tier = record.wanted_tier();
    const bool pinned = model.tier == Tier::pinned_ram;
    if (pinned) {
      model.wanted_hold = Hold::locked;
    } else if (record.requested_hold) {
      model.wanted_hold = record.requested_hold;
    } else {
      model.wanted_hold = record.settings.hold;
    }
    model.wanted = record.wanted;
    model.requested = &record == asked_for;
    model.rewarm = !record.settings.preload.never;
    model.keep_alive = record.settings.keep_alive;
    model.busy = (record.job != 0 || record.giving_back) && &record != asked_for;
    model.state = record.state();
    if (record.resolved) {
      for (const catalog::ModelFile& file : record.resolved->source.files) {
        const tier::FileKey key = tier::key_of(file.identity);
        const auto number = numbers.emplace(std::pair(pinned, key), numbers.size()).first->second;
        model.files.push_back({number, file.identity.size});
      }
    }
    model.held = world_.store.hold_of(record.name, record.keys());
    if (pinned) {
      model.held.reset();
      if (record.pinned_bytes > 0) model.held = Hold::locked;
    }
    model.last_used = record.last_used_steady;
    model.retry_after = record.retry_after;
    model.lock_limit = record.lock_limit.has_value();
    model.ever_warmed = record.ever_warmed;
    model.to_read_again = waits_to_be_read_again(record);
    model.was_read_again =
        record.before_reboot && record.before_reboot->state == BeforeReboot::State::read;
    facts.models.push_back(std::move(model));
  });
  return facts;
}

policy::Plan Reconciler::plan() const { return policy::plan(facts(nullptr), world_.clock.now()); }

void Reconciler::run() {
  if (world_.settings.agent.dry_run) return;
  if (world_.memory.under_pressure) warmer_->leave_off_unasked();
  world_.models.each([](ModelRecord& record) { record.plan_note.clear(); });
  for (const policy::Step& step : plan().steps) {
    ModelRecord* record = world_.models.find(step.model);
    if (record == nullptr) continue;
    record->plan_note = step.reason;
    switch (step.kind) {
      case policy::Step::Kind::demote:
      case policy::Step::Kind::release:
        free_memory(step, *record);
        break;
      case policy::Step::Kind::read_again:
        warmer_->read_again(*record);
        break;
      case policy::Step::Kind::warm: {
        const auto job = warmer_->warm(*record, std::nullopt, false);
        if (!job) say_not_warmed(*record, job.error());
        break;
      }
      case policy::Step::Kind::refuse:
      case policy::Step::Kind::wait:
        break;  // The reason is what there is to it; status and explain show it.
    }
  }
}

Result<Hold> Reconciler::admit(ModelRecord& record) {
  const policy::Plan plan = policy::plan(facts(&record), world_.clock.now());
  for (const policy::Step& step : plan.steps) {
    if (step.model == record.name && step.kind == policy::Step::Kind::refuse) {
      return make_error(step.code, step.reason);
    }
  }
  for (const policy::Step& step : plan.steps) {
    ModelRecord* other = world_.models.find(step.model);
    if (other != nullptr && other != &record) free_memory(step, *other);
  }
  return world_.hold_for(record);
}

void Reconciler::free_memory(const policy::Step& step, ModelRecord& record) {
  if (step.kind == policy::Step::Kind::release) {
    log::info({.model = record.name}, "{}: let go: {}", record.name, step.reason);
    record.wanted = false;
    warmer_->drop(record, false, {});
  } else if (step.kind == policy::Step::Kind::demote && step.hold == Hold::cached) {
    log::info({.model = record.name}, "{}: {} from now on: {}", record.name,
              record.pinned_bytes > 0 ? "no longer in pinned-ram" : "held as cached", step.reason);
    world_.dispose(world_.store.demote_to_cached(record.name));
    warmer_->give_up_copies(record, to_string(probe::EventType::memory_pressure));
    if (world_.yields_to) {
      record.lock_limit = *world_.yields_to + " holds models on this machine";
    } else if (record.wanted_hold() != Hold::cached) {
      record.back_off_from(world_.clock.now());
    }
  } else if (step.kind == policy::Step::Kind::demote) {
    const auto job = warmer_->warm(record, std::nullopt, false);
    if (!job) say_not_warmed(record, job.error());
  }
}

}  // namespace andiron::core
