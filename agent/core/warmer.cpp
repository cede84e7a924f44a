// SPDX-License-Identifier: MIT
#include "agent/core/warmer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "agent/core/job_end.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// A model that came over the socket and was dropped is shown for this long, for whoever looks.
constexpr auto kShownAfterDrop = 60s;

void add_stages(tier::StageTimes& sum, const tier::StageTimes& more) {
  sum.locate += more.locate;
  sum.read += more.read;
  sum.place += more.place;
  sum.verify += more.verify;
}

}  // namespace

Result<std::unique_ptr<Warmer>> Warmer::create(World& world, PinnedKeeper& pinned, Hooks hooks) {
  auto outcomes = TRY(Mailbox<tier::FillOutcome>::create());
  auto copies = TRY(Mailbox<tier::PinnedOutcome>::create());
  return std::unique_ptr<Warmer>(
      new Warmer(world, pinned, std::move(hooks),
                 std::make_shared<Mailbox<tier::FillOutcome>>(std::move(outcomes)),
                 std::make_shared<Mailbox<tier::PinnedOutcome>>(std::move(copies))));
}

Warmer::Warmer(World& world, PinnedKeeper& pinned, Hooks hooks,
               std::shared_ptr<Mailbox<tier::FillOutcome>> outcomes,
               std::shared_ptr<Mailbox<tier::PinnedOutcome>> pinned_outcomes)
    : world_(world),
      pinned_(pinned),
      hooks_(std::move(hooks)),
      outcomes_(std::move(outcomes)),
      pinned_outcomes_(std::move(pinned_outcomes)),
      resolver_(
          world,
          {[this](ModelRecord& record) { hooks_.resolved(record); },
           [this](ModelRecord& record, Error error) { give_up(record, std::move(error)); },
           [this](ModelRecord& record, const tier::FileKey& key) { forget_file(record, key); }}) {}

Result<Job*> Warmer::warm(ModelRecord& record, std::optional<Hold> hold, bool requested,
                          std::optional<Tier> tier) {
  if (world_.settings.agent.dry_run) {
    return make_error(Errc::unavailable, "dry_run is set: nothing is loaded");
  }
  if (Job* running = jobs_.find(record.job)) {
    running->requested = running->requested || requested;
    running->control->set_background(!running->requested);
    if (tier && *tier != running->tier) {
      return make_error(Errc::unavailable, record.name + ": it is being warmed in " +
                                               std::string(to_string(running->tier)));
    }
    if (hold) record.requested_hold = hold;
    return running;
  }
  leave_off_unasked();
  const bool wanted_before = std::exchange(record.wanted, true);
  record.cancelled = false;
  record.before_reboot.reset();
  if (hold) record.requested_hold = hold;
  if (tier) record.requested_tier = tier;
  if (requested) record.touch(world_.clock);
  Job& job = begin(record, requested);
  job.tier = record.wanted_tier();
  job.wanted_before = wanted_before;
  return &job;
}

void Warmer::read_again(ModelRecord& record) {
  if (world_.settings.agent.dry_run || record.job != 0 || record.wanted) return;
  if (record.wanted_tier() != Tier::page_cache) return;
  begin(record, false).unasked = true;
}

Job& Warmer::begin(ModelRecord& record, bool requested) {
  Job& job = jobs_.add();
  job.model = record.name;
  job.requested = requested;
  job.started = world_.clock.wall();
  job.started_steady = world_.clock.now();
  job.control = std::make_shared<stream::TransferControl>(std::nullopt);
  job.control->set_background(!requested);
  record.job = job.id;
  const std::uint64_t id = job.id;
  const auto go_on = [this, id] {
    Job* waiting = jobs_.find(id);
    if (waiting == nullptr || waiting->ended()) return;
    ModelRecord* model = world_.models.find(waiting->model);
    if (model == nullptr) return end(*waiting, JobState::cancelled);
    if (!model->resolved) {
      waiting->error = model->resolve_error.value_or(make_error(Errc::unavailable, model->name));
      return finish(*waiting);
    }
    start_fill(*waiting, *model);
  };
  refresh(record, go_on);
  return job;
}

/// What the model's running job fills is not what is wanted any longer.
void Warmer::give_up(ModelRecord& record, Error error) {
  Job* job = jobs_.find(record.job);
  if (job == nullptr || job->state != JobState::running) return;
  job->error = std::move(error);
  job->control->cancel();
}

void Warmer::take_new_source(ModelRecord& record) {
  give_up(record, make_error(Errc::stale, record.name + ": its source was changed"));
  release_all(record, to_string(probe::EventType::model_changed));
  record.resolved.reset();
  record.resolve_error.reset();
  record.samples.clear();
  record.ever_warmed = false;
  record.stale = false;
  refresh(record, {});
}

void Warmer::hold_nothing() {
  world_.models.each([&](ModelRecord& record) {
    give_up(record, make_error(Errc::unavailable, "dry_run was set"));
    release_all(record, "dry_run was set");
  });
}

void Warmer::start_fill(Job& job, ModelRecord& record) {
  const auto stop = [&](Error error) {
    job.error = std::move(error);
    finish(job);
  };
  for (const catalog::ModelFile& file : record.resolved->source.files) {
    if (pinned_.owns(file.identity))
      return stop(make_error(Errc::bad_request, file.path + " is a copy that this agent made"));
  }
  // Nobody is to make room for what nobody wants.
  auto hold = job.unasked ? Result<Hold>(Hold::cached) : hooks_.admit(record);
  if (!hold) return stop(std::move(hold).error());
  job.hold = *hold;
  if (world_.yields_to && job.hold < record.wanted_hold()) {
    job.lock_limit = *world_.yields_to + " holds models on this machine";
  }

  if (auto reserved = reserve(job, record); !reserved) return stop(std::move(reserved).error());
  job.state = JobState::running;

  const ResolvedModel& model = *record.resolved;
  std::vector<std::vector<tier::FillFile>> files(model.devices.size());
  for (std::size_t i = 0; i < model.source.files.size(); ++i) {
    const catalog::ModelFile& file = model.source.files[i];
    files[model.device_of[i]].push_back({file.path, file.identity});
  }
  for (std::size_t device = 0; device < files.size(); ++device) {
    auto task = task_for(job, record, std::move(files[device]));
    if (auto taken = world_.engine.submit(model.devices[device], std::move(task)); !taken) {
      if (!job.error) job.error = std::move(taken).error();
      job.control->cancel();
      continue;  // A task that was not taken reports nothing.
    }
    ++job.fills_left;
  }
  if (job.fills_left == 0) finish(job);
}

Result<void> Warmer::reserve(Job& job, const ModelRecord& record) {
  std::vector<tier::FillFile> all;
  for (const catalog::ModelFile& file : record.resolved->source.files)
    all.push_back({file.path, file.identity});
  if (job.tier == Tier::pinned_ram) {
    static_cast<void>(TRY(pinned_.folder()));
    pinned_.measure();
    job.reservations = TRY(world_.pinned.reserve(all));
  } else {
    job.reservations = TRY(world_.store.reserve(all, job.hold));
  }
  return {};
}

std::unique_ptr<stream::LaneTask> Warmer::task_for(const Job& job, const ModelRecord& record,
                                                   std::vector<tier::FillFile> files) const {
  const std::uint64_t min_available =
      world_.memory.headroom + world_.store.mapped_bytes_beside(record.name);
  if (job.tier == Tier::pinned_ram) {
    tier::PinnedRequest request;
    request.job = job.id;
    request.files = std::move(files);
    request.folder = pinned_.folder().value();  // as reserve() found it
    request.priority = job.unasked ? Priority::background : record.settings.priority;
    request.min_available = min_available;
    return tier::make_pinned_task(std::move(request), job.control, pinned_outcomes_);
  }
  tier::FillRequest request;
  request.job = job.id;
  request.files = std::move(files);
  request.hold = job.hold;
  request.priority = job.unasked ? Priority::background : record.settings.priority;
  request.protection = world_.protection;
  request.unprotected = world_.unprotected;
  request.min_available = min_available;
  return tier::make_fill_task(std::move(request), job.control, outcomes_);
}

void Warmer::collect() {
  for (tier::FillOutcome& outcome : outcomes_->drain())
    on_outcome(std::move(outcome));
  for (tier::PinnedOutcome& outcome : pinned_outcomes_->drain())
    on_outcome(std::move(outcome));
}

/// Where in the model's files that one is; nullopt where the model has another one now.
std::optional<std::size_t> Warmer::place_of(const ModelRecord& record,
                                            const os::FileIdentity& identity) const {
  if (!record.resolved) return std::nullopt;
  const std::vector<catalog::ModelFile>& files = record.resolved->source.files;
  const auto place = std::find_if(files.begin(), files.end(), [&](const catalog::ModelFile& file) {
    return file.identity == identity;
  });
  if (place == files.end()) return std::nullopt;
  return static_cast<std::size_t>(place - files.begin());
}

void Warmer::on_outcome(tier::FillOutcome outcome) {
  Job* job = jobs_.find(outcome.job);
  ModelRecord* record = job == nullptr ? nullptr : world_.models.find(job->model);
  const bool unasked = job != nullptr && job->unasked;
  if (job == nullptr || job->ended() || record == nullptr || !(record->wanted || unasked) ||
      world_.settings.agent.dry_run) {
    world_.dispose(std::move(outcome.held));
  } else {
    for (tier::HeldFile& file : outcome.held) {
      const auto place = place_of(*record, file.identity);
      if (place && file.resident_known) record->samples[*place].resident = file.resident_bytes;
      if (!place || unasked) {  // it changed meanwhile, or is not to be held
        world_.dispose(std::move(file));
        continue;
      }
      auto node = job->reservations.extract(tier::key_of(file.identity));
      world_.dispose(
          world_.store.commit(record->name, std::move(file), job->hold,
                              node.empty() ? tier::Reservation() : std::move(node.mapped())));
    }
  }
  if (job != nullptr && !job->ended()) take_report(*job, outcome);
}

void Warmer::on_outcome(tier::PinnedOutcome outcome) {
  Job* job = jobs_.find(outcome.job);
  ModelRecord* record = job == nullptr ? nullptr : world_.models.find(job->model);
  const bool welcome = job != nullptr && !job->ended() && record != nullptr && record->wanted &&
                       !world_.settings.agent.dry_run;
  for (tier::PinnedFile& file : outcome.held) {
    const tier::FileKey key = tier::key_of(file.identity);
    if (!welcome || !place_of(*record, file.identity)) {
      pinned_.discard(std::move(file));
      continue;
    }
    auto node = job->reservations.extract(key);
    auto other =
        world_.pinned.commit(record->name, std::move(file),
                             node.empty() ? tier::Reservation() : std::move(node.mapped()));
    if (other) pinned_.discard(std::move(*other));
  }
  if (welcome) record->pinned_bytes = world_.pinned.bytes_of(record->name, record->keys());
  if (job != nullptr && !job->ended()) take_report(*job, outcome);
}

template <class Outcome>
void Warmer::take_report(Job& job, Outcome& outcome) {
  add_stages(job.stages, outcome.stages);
  job.bytes_read += outcome.bytes_read;
  for (std::string& note : outcome.notes)
    job.notes.push_back(std::move(note));
  if (outcome.error && !job.error) job.error = std::move(outcome.error);
  if (outcome.lock_limit && !job.lock_limit) job.lock_limit = std::move(outcome.lock_limit);
  if (--job.fills_left == 0) finish(job);
}

void Warmer::finish(Job& job) {
  ModelRecord* record = world_.models.find(job.model);
  if (record == nullptr) return end(job, JobState::cancelled);
  record->notes = job.notes;
  if (!job.unasked && !job.error && job.tier == Tier::pinned_ram) {
    if (auto published = pinned_.publish(*record); !published) job.error = published.error();
  }
  if (job.error && job.error->errc() == Errc::cancelled) return end(job, JobState::cancelled);
  if (!job.error && !job.unasked) {
    // One tier is enough: what the other one held goes.
    if (job.tier == Tier::pinned_ram) {
      world_.dispose(world_.store.release(record->name));
    } else {
      give_up_copies(*record, "held in page-cache from now on");
    }
  }
  note_end(world_, *record, job);
  end(job, job.error ? JobState::failed : JobState::done);
}

void Warmer::end(Job& job, JobState state) {
  job.state = state;
  job.reservations.clear();
  const std::uint64_t id = job.id;
  const std::string model = job.model;
  if (ModelRecord* record = world_.models.find(model)) {
    record->job = 0;
    record->sampled_at = world_.clock.now();  // older walks do not count any more
  }
  hooks_.progressed(job);
  const auto node = after_job_.extract(id);
  if (!node.empty()) {
    for (const auto& then : node.mapped())
      then();
  }
  // A request that came to nothing leaves nothing behind.
  ModelRecord* record = world_.models.find(model);
  if (record != nullptr && !record->configured && !record->wanted) {
    record->forget_at = world_.clock.now();
  }
  world_.persist_soon();
  world_.reconcile_soon();
}

bool Warmer::make_way(const ModelRecord& record) {
  leave_off_unasked();
  const Job* job = jobs_.find(record.job);
  return job == nullptr || job->ended() || !job->error;
}

void Warmer::leave_off_unasked() {
  for (const auto& [id, job] : jobs_.all()) {
    if (job->unasked && !job->ended() && !job->error) leave_off(*job, "it makes way");
  }
}

void Warmer::after_job(const ModelRecord& record, std::function<void()> then) {
  after_job_[record.job].push_back(std::move(then));
}

void Warmer::cancel(Job& job) {
  if (job.ended()) return;
  if (ModelRecord* record = world_.models.find(job.model)) {
    record->wanted = false;
    record->cancelled = true;
  }
  leave_off(job, "by request");
}

void Warmer::leave_off(Job& job, const char* why) {
  job.error = make_error(Errc::cancelled, why);
  job.control->cancel();
  if (job.state == JobState::resolving) finish(job);
}

void Warmer::drop(ModelRecord& record, bool give_back, std::function<void()> then) {
  record.wanted = false;
  record.requested_hold.reset();
  record.requested_tier.reset();
  record.before_reboot.reset();
  if (record.job != 0) record.cancelled = true;
  let_go(record, give_back, std::move(then));
}

void Warmer::give_back(ModelRecord& record, std::function<void()> then) {
  record.giving_back = true;
  let_go(record, true, [this, name = record.name, then = std::move(then)] {
    if (ModelRecord* same = world_.models.find(name)) same->giving_back = false;
    then();
  });
}

void Warmer::let_go(ModelRecord& record, bool give_back, std::function<void()> then) {
  record.ever_warmed = false;
  record.stale = false;
  record.last_error.reset();
  record.lock_limit.reset();
  record.retry_after.reset();
  record.back_off = 0ms;
  const std::string name = record.name;
  Job* job = jobs_.find(record.job);
  if (job == nullptr) return release_and_give_back(record, give_back, std::move(then));
  after_job_[job->id].push_back([this, name, give_back, then = std::move(then)] {
    ModelRecord* same = world_.models.find(name);
    if (same != nullptr) {
      release_and_give_back(*same, give_back, then);
    } else if (then) {
      then();
    }
  });
  leave_off(*job, "by request");
}

void Warmer::release_and_give_back(ModelRecord& record, bool give_back,
                                   std::function<void()> then) {
  std::vector<tier::HeldFile> held = world_.store.release(record.name);
  give_up_copies(record, "dropped");
  std::vector<tier::FillFile> files;
  if (give_back && record.resolved && !world_.settings.agent.dry_run) {
    std::set<tier::FileKey> others;
    world_.models.each([&](ModelRecord& other) {
      if (&other == &record || !other.wanted) return;
      for (const tier::FileKey& key : other.keys())
        others.insert(key);
    });
    for (const catalog::ModelFile& file : record.resolved->source.files) {
      if (!others.contains(tier::key_of(file.identity))) {
        files.push_back({file.path, file.identity});
      }
    }
  }
  const std::string name = record.name;
  world_.slow.run_at(
      world_.place_of(record),
      [held = std::move(held), files = std::move(files)]() mutable {
        held.clear();  // Mapped pages cannot be given back.
        for (const tier::FillFile& file : files) {
          // A file that is gone, or is another one now, has nothing of ours to give back.
          [[maybe_unused]] const auto left = tier::give_pages_back(file.path, file.identity);
        }
        return true;
      },
      [this, name, then = std::move(then)](bool) {
        ModelRecord* same = world_.models.find(name);
        if (same != nullptr) same->sampled_at.reset();
        if (same != nullptr && !same->configured && !same->wanted) {
          same->forget_at = world_.clock.now() + kShownAfterDrop;
        }
        if (then) then();
        world_.persist_soon();
        world_.reconcile_soon();
      });
}

void Warmer::forget_ad_hoc() {
  std::vector<std::string> names;
  const SteadyTime now = world_.clock.now();
  world_.models.each([&](const ModelRecord& record) {
    const bool idle = record.job == 0 && !record.resolving && !record.sampling;
    if (!record.configured && !record.wanted && idle && record.forget_at &&
        *record.forget_at <= now) {
      names.push_back(record.name);
    }
  });
  for (const std::string& name : names) {
    ModelRecord* record = world_.models.find(name);
    release_all(*record, "dropped");
    hooks_.forgotten(*record);
    world_.models.remove(name);
  }
}

void Warmer::give_up_copies(ModelRecord& record, std::string_view why) {
  pinned_.withdraw(record, why);
}

void Warmer::release_all(ModelRecord& record, std::string_view why) {
  world_.dispose(world_.store.release(record.name));
  give_up_copies(record, why);
}

/// The inode has other bytes now, or is gone: nobody holds what it was.
void Warmer::forget_file(ModelRecord& record, const tier::FileKey& key) {
  world_.dispose(world_.store.forget(key));
  pinned_.forget(record, key);
  record.pinned_bytes = world_.pinned.bytes_of(record.name, record.keys());
}

bool Warmer::settling() const {
  bool any = false;
  world_.models.each([&](const ModelRecord& record) {
    const bool pinned = record.wanted && record.wanted_tier() == Tier::pinned_ram;
    const bool tried = record.last_error || record.resolve_error || record.retry_after ||
                       !record.plan_note.empty();
    any = any || record.resolving || (pinned && record.job != 0) ||
          (pinned && record.pinned_bytes < record.bytes() && !tried);
  });
  return any;
}

void Warmer::pause_background(bool paused) {
  for (const auto& [id, job] : jobs_.all()) {
    if (!job->ended()) job->control->set_paused(paused && !job->requested);
  }
}

bool Warmer::background_running() const {
  return std::any_of(jobs_.all().begin(), jobs_.all().end(), [](const auto& entry) {
    return entry.second->state == JobState::running && !entry.second->requested;
  });
}

}  // namespace andiron::core
