// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/jobs.hpp"
#include "agent/core/model_resolver.hpp"
#include "agent/core/pinned_keeper.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// Runs warm jobs: resolve, admit, reserve, fill on the lanes, commit.
/// Thread: the control loop's. Never blocks.
class Warmer {
 public:
  struct Hooks {
    /// Makes room and says whether the model may be warmed now, with which hold.
    std::function<Result<Hold>(ModelRecord&)> admit;
    /// A job moved on (also: ended). Its waiters want to know.
    std::function<void(Job&)> progressed;
    /// The model's files are known anew: watch them.
    std::function<void(ModelRecord&)> resolved;
    /// The model is about to be forgotten: unwatch it.
    std::function<void(ModelRecord&)> forgotten;
  };

  static Result<std::unique_ptr<Warmer>> create(World& world, PinnedKeeper& pinned, Hooks hooks);

  /// Starts a job, or joins the one that runs. `requested` is false for the planner's own.
  /// Errors: unavailable (dry_run).
  Result<Job*> warm(ModelRecord& record, std::optional<Hold> hold, bool requested,
                    std::optional<Tier> tier = std::nullopt);
  /// Before somebody's warm: jobs that nobody asked for leave off. False while the model's own job
  /// has left off, or failed, and waits for its lanes: who asks now has to ask again after that.
  bool make_way(const ModelRecord& record);
  /// Brings a model in as `cached`, in the background, without wanting or holding it.
  void read_again(ModelRecord& record);
  /// What read_again() began leaves off; the planner may have it go on later.
  void leave_off_unasked();
  /// Calls `then` when the model's job has ended.
  void after_job(const ModelRecord& record, std::function<void()> then);
  /// Stops a job; what it did stays as it is. The model is then not wanted until somebody asks.
  void cancel(Job& job);
  /// Lets go of a model: no job, no hold, not wanted. With `give_back`, its own clean pages go
  /// too. `then` is called when that is done.
  void drop(ModelRecord& record, bool give_back, std::function<void()> then);
  /// The same, with its pages given back, but what is wanted stays so: it is about to be warmed
  /// again. Until `then` is called the planner leaves it alone.
  void give_back(ModelRecord& record, std::function<void()> then);

  /// The model's copies in pinned-ram go, those that no other model holds; it stays wanted. `why`
  /// is for clients that have leases on them.
  void give_up_copies(ModelRecord& record, std::string_view why);

  /// ModelResolver::refresh.
  void refresh(ModelRecord& record, std::function<void()> then) {
    resolver_.refresh(record, std::move(then));
  }

  /// The model's source is another one now: lets go of all that belonged to the old one.
  void take_new_source(ModelRecord& record);
  /// dry_run was set: no job goes on, nothing is held. What is wanted stays wanted.
  void hold_nothing();

  /// Now and then: forgets models that came over the socket and that nobody wants any longer.
  void forget_ad_hoc();

  /// Outcomes of lanes: readable, then collect() on the loop.
  int fd() const noexcept { return outcomes_->fd(); }
  int pinned_fd() const noexcept { return pinned_outcomes_->fd(); }
  void collect();

  JobTable& jobs() noexcept { return jobs_; }
  /// Asks all jobs that nobody waits for to pause, or to go on.
  void pause_background(bool paused);
  bool background_running() const;
  /// Some model's files are not known yet, or are to be copied and have not been tried.
  bool settling() const;

 private:
  Warmer(World& world, PinnedKeeper& pinned, Hooks hooks,
         std::shared_ptr<Mailbox<tier::FillOutcome>> outcomes,
         std::shared_ptr<Mailbox<tier::PinnedOutcome>> pinned_outcomes);

  void start_fill(Job& job, ModelRecord& record);
  Result<void> reserve(Job& job, const ModelRecord& record);
  std::unique_ptr<stream::LaneTask> task_for(const Job& job, const ModelRecord& record,
                                             std::vector<tier::FillFile> files) const;
  void on_outcome(tier::FillOutcome outcome);
  void on_outcome(tier::PinnedOutcome outcome);
  template <class Outcome>
  void take_report(Job& job, Outcome& outcome);
  std::optional<std::size_t> place_of(const ModelRecord& record,
                                      const os::FileIdentity& identity) const;
  void forget_file(ModelRecord& record, const tier::FileKey& key);
  void release_all(ModelRecord& record, std::string_view why);
  void give_up(ModelRecord& record, Error error);
  void finish(Job& job);
  void end(Job& job, JobState state);
  void let_go(ModelRecord& record, bool give_back, std::function<void()> then);
  void leave_off(Job& job, const char* why);
  Job& begin(ModelRecord& record, bool requested);
  void release_and_give_back(ModelRecord& record, bool give_back, std::function<void()> then);

  World& world_;
  PinnedKeeper& pinned_;
  Hooks hooks_;
  std::shared_ptr<Mailbox<tier::FillOutcome>> outcomes_;
  std::shared_ptr<Mailbox<tier::PinnedOutcome>> pinned_outcomes_;
  JobTable jobs_;
  ModelResolver resolver_;
  std::map<std::uint64_t, std::vector<std::function<void()>>> after_job_;
};

}  // namespace andiron::core
