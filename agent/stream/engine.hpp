// SPDX-License-Identifier: MIT
#pragma once

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

/// What a task may use of the lane it runs on. Lives as long as the lane's thread.
struct LaneContext {
  const os::DeviceTraits& device;
  ReadBackend& reads;    // the lane's own ring, or its pread fallback
  RateLimiter& limiter;  // of all lanes together
  const Clock& clock;
};

/// A piece of work for one device. It runs on the lane's thread alone, looks at its
/// TransferControl between windows of at most 16 MiB, and reports its end itself (to a mailbox that
/// it brought along): run() returns when all is said.
class LaneTask {
 public:
  virtual ~LaneTask() = default;
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
    std::size_t max_lanes = 64;
  };
  Engine(Options options, const Clock& clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Errors: unavailable past max_lanes or after stop.
  Result<void> submit(const os::DeviceTraits& device, std::unique_ptr<LaneTask> task);
  void set_options(Options options);
  std::vector<LaneStatus> status() const;

  /// Lets tasks end (their owners cancelled them), abandons what is queued, joins the lanes.
  /// False when a lane did not come back from the kernel by the deadline: its thread is then left
  /// behind, and the process must end by _exit.
  bool stop(std::chrono::milliseconds deadline);

 private:
  class Lane;
  Options options_;
  const Clock& clock_;
  std::shared_ptr<RateLimiter> limiter_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  bool stopped_ = false;
};

}  // namespace andiron::stream
