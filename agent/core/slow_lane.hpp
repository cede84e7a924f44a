// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "agent/base/clock.hpp"
#include "agent/base/mailbox.hpp"
#include "agent/base/result.hpp"

namespace andiron::core {

/// Rare blocking work: resolving, residency walks, unmapping. One thread does it, in order; when
/// it has not come back from the kernel for kStuckAfter (a network file system that went away),
/// another takes over the queue, up to kMaxThreads, so that one dead mount does not stop the rest.
/// Work that names the place it goes to is done one at a time for each place: a dead mount takes
/// one thread, however many models lie on it.
/// Thread: the control loop's; work() alone runs elsewhere. Never blocks, but stop().
class SlowLane {
 public:
  /// A piece of work: work() on the slow thread, then finish() on the loop.
  class Task {
   public:
    virtual ~Task() = default;
    virtual void work() noexcept = 0;
    virtual void finish() noexcept = 0;
  };

  static constexpr std::chrono::seconds kStuckAfter{2};
  static constexpr std::size_t kMaxThreads = 8;

  static Result<std::unique_ptr<SlowLane>> create(const Clock& clock);
  ~SlowLane();
  SlowLane(const SlowLane&) = delete;
  SlowLane& operator=(const SlowLane&) = delete;

  /// An empty place is none.
  void post(std::unique_ptr<Task> task, std::string place = {});

  /// `work()` gives a value on the slow thread, `then(value)` takes it on the loop.
  template <class Work, class Then>
  void run(Work work, Then then) {
    run_at({}, std::move(work), std::move(then));
  }
  template <class Work, class Then>
  void run_at(std::string place, Work work, Then then) {
    using Value = std::invoke_result_t<Work&>;
    struct Pair final : Task {
      Pair(Work w, Then t) : work_(std::move(w)), then_(std::move(t)) {}
      void work() noexcept override { value_.emplace(work_()); }
      void finish() noexcept override { then_(std::move(*value_)); }
      Work work_;
      Then then_;
      std::optional<Value> value_;
    };
    post(std::make_unique<Pair>(std::move(work), std::move(then)), std::move(place));
  }

  /// Work whose end nobody waits for.
  template <class Work>
  void run(Work work) {
    struct Alone final : Task {
      explicit Alone(Work w) : work_(std::move(w)) {}
      void work() noexcept override { work_(); }
      void finish() noexcept override {}
      Work work_;
    };
    post(std::make_unique<Alone>(std::move(work)));
  }

  /// Readable when something is finished; then call deliver() on the loop.
  int fd() const noexcept;
  void deliver();
  /// Now and then: lets another thread take over from one that is stuck.
  void tick();

  /// Threads that have not come back for kStuckAfter.
  std::size_t stuck() const;
  std::size_t queued() const;

  /// Drops what is queued and joins. False when a thread did not come back by the deadline; it is
  /// left behind, and the process must end by _exit.
  bool stop(std::chrono::milliseconds deadline);

 private:
  struct State;
  explicit SlowLane(std::shared_ptr<State> state);
  void start_thread();

  std::shared_ptr<State> state_;
};

}  // namespace andiron::core
