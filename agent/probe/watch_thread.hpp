// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::probe {

/// The thread of a source of container news, and its orders: whom to follow, and to end.
/// Thread: the owner's for start() and the end, any for follow(), its own for the rest. Blocks: its
/// end, until run() has returned, which it does at once where it waits by wait() or for stop_fd().
class WatchThread {
 public:
  static Result<std::unique_ptr<WatchThread>> create();
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

  /// Once. `run` returns when wait() says so; what it uses outlives this.
  void start(std::function<void()> run);
  void follow(std::set<std::string> names);

  /// The names to follow, where they are others since the last call.
  std::optional<std::set<std::string>> take_names();
  /// Until there are other names, `fd` is readable (-1 is none), or patience ends, which nullopt
  /// never does. False: stop.
  bool wait(int fd, std::optional<std::chrono::milliseconds> patience) const;
  /// Readable: stop.
  int stop_fd() const noexcept { return stop_.get(); }

 private:
  WatchThread(UniqueFd stop, UniqueFd wake) : stop_(std::move(stop)), wake_(std::move(wake)) {}

  const UniqueFd stop_;
  const UniqueFd wake_;  // readable: names_ changed
  std::mutex mutex_;
  std::set<std::string> names_;
  std::thread thread_;
};

}  // namespace andiron::probe
