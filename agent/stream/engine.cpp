// SPDX-License-Identifier: MIT
#include "agent/stream/engine.hpp"

#include <linux/ioprio.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/base/log.hpp"

namespace andiron::stream {
namespace {

using std::chrono::milliseconds;

// 16 buffered reads of 1 MiB were the most that helped on the devices measured; twice that leaves
// room for one that is deeper. A task submits as many as it finds good, up to this.
constexpr std::size_t kLaneDepth = 32;
// What a person who cancels does not notice, and a wake-up a lane that waits can afford.
constexpr milliseconds kWaitSlice{20};
// For reads that a task left in flight. Past it their device is taken for dead.
constexpr milliseconds kCancelWait{5000};
constexpr milliseconds kDestroyWait{5000};

/// Of the calling thread, whose children take it over; its io_uring reads and their workers take it
/// over. Where it is refused the kernel's default stays, which is best-effort 4.
void set_io_class_of_thread(IoClass io_class) noexcept {
  static thread_local std::optional<IoClass> current;
  if (std::exchange(current, io_class) == io_class) return;
  const int value = io_class == IoClass::idle ? IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)
                                              : IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, IOPRIO_NORM);
  if (::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) != 0) {
    log::debug("ioprio_set: {}, falling back to the default class",
               std::generic_category().message(errno));
  }
}

struct Job {
  os::DeviceTraits device;
  std::unique_ptr<LaneTask> task;
};

}  // namespace

milliseconds Heartbeat::silent_for(SteadyTime now) const noexcept {
  const SteadyTime::rep last = last_.load(std::memory_order_relaxed);
  if (last == kResting) return milliseconds(0);
  const SteadyTime::duration silence = now.time_since_epoch() - SteadyTime::duration(last);
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(silence));
}

void LaneContext::take_class(const TransferControl& control) const noexcept {
  set_io_class_of_thread(control.background() ? IoClass::idle : io_class);
}

Result<void> LaneContext::wait(const TransferControl& control,
                               std::chrono::nanoseconds duration) const {
  const SteadyTime begin = clock.now();
  for (SteadyTime now = begin;; now = clock.now()) {
    beat();
    TRY(control.check(now));
    if (now - begin >= duration) return {};
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(kWaitSlice, duration - (now - begin)));
  }
}

/// One thread and its queue. The thread shares the lane with the engine, since it may outlive it.
/// Thread: the public part is the engine's, but run().
class Engine::Lane {
 public:
  Lane(std::string key, std::string device, IoClass io_class, std::shared_ptr<RateLimiter> limiter,
       const Clock& clock)
      : key_(std::move(key)),
        device_(std::move(device)),
        clock_(clock),
        limiter_(std::move(limiter)),
        io_class_(io_class) {}

  const std::string& key() const noexcept { return key_; }
  static Result<void> start(const std::shared_ptr<Lane>& lane);
  void push(Job job);
  bool idle() const;
  LaneStatus status(SteadyTime now) const;
  void set_io_class(IoClass io_class) noexcept { io_class_.store(io_class); }

  /// The thread ends after what it runs now; gives what is queued.
  std::vector<Job> begin_stop();
  /// Joins the thread if it ended by then. Else the lane is as before.
  bool join_by(std::chrono::steady_clock::time_point deadline);
  void leave_behind() { thread_.detach(); }

 private:
  void run() noexcept;
  void run_one(Job job, std::unique_ptr<ReadBackend>& reads) noexcept;
  std::optional<Job> next();

  const std::string key_;
  const std::string device_;
  const Clock& clock_;
  const std::shared_ptr<RateLimiter> limiter_;
  std::atomic<IoClass> io_class_;
  Heartbeat heartbeat_;
  std::thread thread_;  // the engine's alone

  mutable std::mutex mutex_;  // held for moves only
  std::condition_variable changed_;
  std::map<std::pair<int, std::uint64_t>, Job> queue_;  // lowered priority and number of arrival
  std::uint64_t arrivals_ = 0;
  bool busy_ = false;
  bool stopping_ = false;
  bool ended_ = false;
};

Result<void> Engine::Lane::start(const std::shared_ptr<Lane>& lane) {
  // A lane takes no signals: they are the control loop's. It is born so, since a signal may come
  // before it could block them itself.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = 0;
  try {
    lane->thread_ = std::thread([lane] { lane->run(); });
  } catch (const std::system_error& error) {
    failure = error.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    return make_error(Errc::unavailable, "a thread for " + lane->key_ + ": " +
                                             std::generic_category().message(failure));
  }
  return {};
}

void Engine::Lane::push(Job job) {
  const int lowered = -static_cast<int>(job.task->priority());
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace(std::pair(lowered, arrivals_++), std::move(job));
  }
  changed_.notify_all();
}

bool Engine::Lane::idle() const {
  const std::lock_guard lock(mutex_);
  return !busy_ && queue_.empty();
}

LaneStatus Engine::Lane::status(SteadyTime now) const {
  const std::lock_guard lock(mutex_);
  return {key_, device_, queue_.size(), busy_,
          busy_ ? heartbeat_.silent_for(now) : milliseconds(0)};
}

std::vector<Job> Engine::Lane::begin_stop() {
  std::vector<Job> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& [place, job] : queue_)
      dropped.push_back(std::move(job));
    queue_.clear();
  }
  changed_.notify_all();
  return dropped;
}

bool Engine::Lane::join_by(std::chrono::steady_clock::time_point deadline) {
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [this] { return ended_; })) return false;
  }
  thread_.join();  // it has nothing left to do
  return true;
}

std::optional<Job> Engine::Lane::next() {
  std::unique_lock lock(mutex_);
  busy_ = false;
  changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  if (stopping_) return std::nullopt;
  Job job = std::move(queue_.begin()->second);
  queue_.erase(queue_.begin());
  busy_ = true;
  return job;
}

void Engine::Lane::run_one(Job job, std::unique_ptr<ReadBackend>& reads) noexcept {
  const IoClass io_class = io_class_.load();
  set_io_class_of_thread(io_class);
  LaneContext context{job.device, *reads, *limiter_, clock_, io_class, &heartbeat_};
  job.task->run(context);
  if (const Result<void> cancelled = reads->cancel_all(kCancelWait); !cancelled) {
    log::debug("lane {}: {}; their buffers are left to them", key_, cancelled.error().message());
    static_cast<void>(job.task.release());
    static_cast<void>(reads.release());
    reads = make_read_backend(kLaneDepth);
  }
}

void Engine::Lane::run() noexcept {
  // At most 15 characters and a NUL, by the kernel.
  ::pthread_setname_np(::pthread_self(), ("lane-" + key_).substr(0, 15).c_str());
  std::unique_ptr<ReadBackend> reads = make_read_backend(kLaneDepth);
  while (std::optional<Job> job = next()) {
    heartbeat_.beat(clock_.now());
    run_one(std::move(*job), reads);
    heartbeat_.rest();
  }
  reads.reset();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

Engine::Engine(Options options, const Clock& clock)
    : options_(options),
      clock_(clock),
      limiter_(std::make_shared<RateLimiter>(options.max_bandwidth.count)) {}

Engine::~Engine() {
  if (!stopped_) stop(kDestroyWait);
}

void Engine::bury_retired_lanes() {
  std::erase_if(retired_, [](const std::shared_ptr<Lane>& lane) {
    return lane->join_by(std::chrono::steady_clock::now());
  });
}

void Engine::retire_an_idle_lane() {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [](const std::shared_ptr<Lane>& lane) { return lane->idle(); });
  if (found == lanes_.end()) return;
  (*found)->begin_stop();  // only this thread pushes, so nothing is queued
  retired_.push_back(std::move(*found));
  lanes_.erase(found);
}

Result<Engine::Lane*> Engine::lane_of(const os::DeviceTraits& device) {
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (lane->key() == device.lane) return lane.get();
  }
  if (lanes_.size() >= options_.max_lanes) retire_an_idle_lane();
  if (lanes_.size() >= options_.max_lanes) {
    return make_error(Errc::unavailable, "a lane for " + device.lane + ": all " +
                                             std::to_string(options_.max_lanes) +
                                             " lanes are busy");
  }
  auto lane = std::make_shared<Lane>(device.lane, device.name, options_.io_class, limiter_, clock_);
  TRY(Lane::start(lane));
  lanes_.push_back(std::move(lane));
  return lanes_.back().get();
}

Result<void> Engine::submit(const os::DeviceTraits& device, std::unique_ptr<LaneTask> task) {
  if (stopped_) return make_error(Errc::unavailable, "the lanes are stopped");
  bury_retired_lanes();
  Lane* lane = TRY(lane_of(device));
  lane->push({device, std::move(task)});
  return {};
}

void Engine::set_options(Options options) {
  options_ = options;
  limiter_->set_rate(options.max_bandwidth.count);
  for (const std::shared_ptr<Lane>& lane : lanes_)
    lane->set_io_class(options.io_class);
}

std::vector<LaneStatus> Engine::status() const {
  std::vector<LaneStatus> all;
  const SteadyTime now = clock_.now();
  for (const std::shared_ptr<Lane>& lane : lanes_)
    all.push_back(lane->status(now));
  return all;
}

bool Engine::stop(milliseconds deadline) {
  stopped_ = true;
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    for (const Job& job : lane->begin_stop())
      job.task->abandon();
  }
  bool all_back = true;
  for (std::vector<std::shared_ptr<Lane>>* lanes : {&lanes_, &retired_}) {
    for (const std::shared_ptr<Lane>& lane : *lanes) {
      if (lane->join_by(until)) continue;
      lane->leave_behind();
      all_back = false;
    }
    lanes->clear();
  }
  return all_back;
}

}  // namespace andiron::stream
