// SPDX-License-Identifier: MIT
#include "agent/core/slow_lane.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace andiron::core {

/// Shared by the lane and its threads, since one that is stuck in the kernel outlives the lane.
struct SlowLane::State {
  explicit State(const Clock& clock_, Mailbox<std::unique_ptr<Task>> finished_)
      : clock(clock_), finished(std::move(finished_)) {}

  struct Entry {
    std::unique_ptr<Task> task;
    std::string place;
  };
  struct Worker {
    bool busy = false;
    std::string place;  // of what it does, while it is busy
    bool ended = false;
    SteadyTime since;
    std::thread thread;
  };

  const Clock& clock;  // of main(), which ends by _exit when a thread is left behind
  Mailbox<std::unique_ptr<Task>> finished;
  std::mutex mutex;
  std::condition_variable wake;   // of workers: work or stop
  std::condition_variable ended;  // of stop(): a worker ended
  std::deque<Entry> queue;
  std::vector<std::unique_ptr<Worker>> workers;
  bool stopping = false;

  void work(Worker& self) noexcept;
  /// The first entry whose place nobody is at. With the mutex held.
  std::deque<Entry>::iterator next() {
    return std::find_if(queue.begin(), queue.end(), [this](const Entry& entry) {
      return entry.place.empty() ||
             std::none_of(workers.begin(), workers.end(), [&](const auto& worker) {
               return worker->busy && worker->place == entry.place;
             });
    });
  }
  std::size_t count_stuck() const {  // with the mutex held
    const SteadyTime now = clock.now();
    return static_cast<std::size_t>(std::count_if(
        workers.begin(), workers.end(),
        [&](const auto& worker) { return worker->busy && now - worker->since > kStuckAfter; }));
  }
};

void SlowLane::State::work(Worker& self) noexcept {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return stopping || next() != queue.end(); });
    if (stopping) break;
    const auto entry = next();
    std::unique_ptr<Task> task = std::move(entry->task);
    self.place = std::move(entry->place);
    queue.erase(entry);
    self.busy = true;
    self.since = clock.now();
    lock.unlock();
    task->work();
    finished.push(std::move(task));
    lock.lock();
    self.busy = false;
  }
  self.ended = true;
  ended.notify_all();
}

Result<std::unique_ptr<SlowLane>> SlowLane::create(const Clock& clock) {
  auto finished = TRY(Mailbox<std::unique_ptr<Task>>::create());
  auto lane =
      std::unique_ptr<SlowLane>(new SlowLane(std::make_shared<State>(clock, std::move(finished))));
  lane->start_thread();
  return lane;
}

SlowLane::SlowLane(std::shared_ptr<State> state) : state_(std::move(state)) {}

SlowLane::~SlowLane() { stop(std::chrono::milliseconds(0)); }

void SlowLane::start_thread() {
  const std::lock_guard lock(state_->mutex);
  state_->workers.push_back(std::make_unique<State::Worker>());
  State::Worker& worker = *state_->workers.back();
  worker.thread = std::thread([state = state_, &worker] {
    ::pthread_setname_np(::pthread_self(), "slow-lane");
    state->work(worker);
  });
}

void SlowLane::post(std::unique_ptr<Task> task, std::string place) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return;
    state_->queue.push_back({std::move(task), std::move(place)});
  }
  state_->wake.notify_one();
}

int SlowLane::fd() const noexcept { return state_->finished.fd(); }

void SlowLane::deliver() {
  for (auto& task : state_->finished.drain())
    task->finish();
}

void SlowLane::tick() {
  bool more = false;
  {
    const std::lock_guard lock(state_->mutex);
    const std::size_t threads = state_->workers.size();
    more = !state_->stopping && state_->next() != state_->queue.end() && threads < kMaxThreads &&
           state_->count_stuck() == threads;
  }
  if (more) start_thread();
}

std::size_t SlowLane::stuck() const {
  const std::lock_guard lock(state_->mutex);
  return state_->count_stuck();
}

std::size_t SlowLane::queued() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.size();
}

bool SlowLane::stop(std::chrono::milliseconds deadline) {
  std::deque<State::Entry> dropped;
  std::vector<std::unique_ptr<State::Worker>> workers;
  bool all = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    dropped.swap(state_->queue);
    state_->wake.notify_all();
    all = state_->ended.wait_for(lock, deadline, [&] {
      return std::all_of(state_->workers.begin(), state_->workers.end(),
                         [](const auto& worker) { return worker->ended; });
    });
    if (all) workers.swap(state_->workers);
  }
  if (all) {
    for (auto& worker : workers) {
      if (worker->thread.joinable()) worker->thread.join();  // an earlier stop() may have given up
    }
    state_->finished.close();
    return true;
  }
  // What a thread still uses is in state_, which it shares; it is never joined.
  const std::lock_guard lock(state_->mutex);
  for (auto& worker : state_->workers) {
    if (worker->thread.joinable()) worker->thread.detach();
  }
  return false;
}

}  // namespace andiron::core
