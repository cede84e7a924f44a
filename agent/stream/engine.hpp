// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/units.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/os/device.hpp"
#include "agent/stream/rate_limiter.hpp"
#include "agent/stream/read_backend.hpp"
#include "agent/stream/transfer.hpp"

namespace andiron::stream {

/// When a lane's thread was last seen outside the kernel. Thread: written by the lane, read by any.
class Heartbeat {
 public:
  void beat(SteadyTime now) noexcept {
    last_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  void rest() noexcept { last_.store(kResting, std::memory_order_relaxed); }
  /// 0 while it rests.
  std::chrono::milliseconds silent_for(SteadyTime now) const noexcept;

 private:
  static constexpr SteadyTime::rep kResting = SteadyTime::min().time_since_epoch().count();
  std::atomic<SteadyTime::rep> last_{kResting};
};

/// What a task may use of the lane it runs on. Valid during run().
struct LaneContext {
  const os::DeviceTraits& device;  // as it was submitted with
  ReadBackend& reads;              // the lane's own ring, or its pread fallback
  RateLimiter& limiter;            // of all lanes together
  const Clock& clock;
  IoClass io_class = IoClass::best_effort;  // of reads that somebody waits for
  Heartbeat* heartbeat = nullptr;           // none where a task runs without an engine, as in tests

  /// "I am here": to be called between windows, or the lane's silence grows.
  void beat() const noexcept {
    if (heartbeat != nullptr) heartbeat->beat(clock.now());
  }
  /// Reads of the calling thread are in the class that the control asks for from now on: `idle`
  /// while nobody waits for it.
  void take_class(const TransferControl& control) const noexcept;
  /// Waits for the duration by the lane's clock, beating. Ends early with the control's error at
  /// cancel or deadline, up to 20 ms late: a cancel is an atomic flag and wakes nobody.
  Result<void> wait(const TransferControl& control, std::chrono::nanoseconds duration) const;
};

/// A piece of work for one device. It runs on the lane's thread alone, looks at its
/// TransferControl between windows of at most 16 MiB, and reports its end itself (to a mailbox that
/// it brought along): run() returns when all is said.
/// A task that stop() left behind in the kernel goes on when the kernel lets it: it owns, or shares
/// the ownership of, all that it touches.
class LaneTask {
 public:
  virtual ~LaneTask() = default;
  /// Reads that are in flight at its return are cancelled by the lane; where the kernel keeps them,
  /// the task is never destroyed, so that its buffers stay.
  virtual void run(LaneContext& lane) noexcept = 0;
  virtual Priority priority() const noexcept = 0;
  /// When the task is dropped without having run: at shutdown.
  virtual void abandon() noexcept = 0;
};

struct LaneStatus {
  std::string lane;
  std::string device;
  std::size_t queued = 0;
  bool busy = false;
  /// How long the running task has not come back from the kernel; 0 when it is not busy. A network
  /// file system that went away shows here.
  std::chrono::milliseconds silent_for{0};
};

/// The storage lanes, one thread per block device, made when first wanted; highest priority first,
/// then first come. Thread: the control loop's. Never blocks, but stop().
class Engine {
 public:
  struct Options {
    Bytes max_bandwidth{0};
    IoClass io_class = IoClass::best_effort;
    /// Past it a lane that has nothing to do makes room: st_dev of network file systems changes
    /// with every mount, and a year has many.
    std::size_t max_lanes = 64;
  };
  /// The clock outlives the engine, and after a stop() that returned false the process.
  Engine(Options options, const Clock& clock);
  /// stop(), with 5 s.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Errors: unavailable past max_lanes busy ones, after stop, or when no thread can be made; the
  /// task is then destroyed, neither run nor abandoned.
  Result<void> submit(const os::DeviceTraits& device, std::unique_ptr<LaneTask> task);
  /// The rate changes at once, the class with each lane's next task.
  void set_options(Options options);
  std::vector<LaneStatus> status() const;

  /// Lets tasks end (their owners cancelled them), abandons what is queued, joins the lanes.
  /// False when a lane did not come back from the kernel by the deadline: its thread is then left
  /// behind, and the process must end by _exit. That thread is detached, here alone, and shares
  /// what it touches (its lane, the limiter), so that nothing is freed under it.
  bool stop(std::chrono::milliseconds deadline);

 private:
  class Lane;
  Result<Lane*> lane_of(const os::DeviceTraits& device);
  void retire_an_idle_lane();
  void bury_retired_lanes();

  Options options_;
  const Clock& clock_;
  std::shared_ptr<RateLimiter> limiter_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::vector<std::shared_ptr<Lane>> retired_;  // told to end, not joined yet
  bool stopped_ = false;
};

}  // namespace andiron::stream
