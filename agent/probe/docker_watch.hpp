// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "agent/base/result.hpp"
#include "agent/probe/container_report.hpp"

namespace andiron::probe {

/// Starts and stops of the containers that are followed, as dockerd tells them on its socket.
///
/// It subscribes to /events first, from the time of the last event on, and then asks for the list
/// of what runs: what a gap, a restart of dockerd or a lost report hid is found there. Each start
/// is told with its first process, which is asked for. Thread: its own does all that waits;
/// follow() from any. Never blocks its caller: every wait of the thread ends at a deadline, or at
/// once when this is destroyed. Owns: the thread, and at most some MiB for what dockerd says. On
/// failure: tells so once as the capability "docker", and tries again, from kFirstBackOff apart to
/// kLongestBackOff.
class DockerWatch {
 public:
  static constexpr std::chrono::milliseconds kFirstBackOff{200};
  static constexpr std::chrono::milliseconds kLongestBackOff{5'000};

  struct Options {
    std::string socket;
    /// What dockerd may take to answer. One that is busy pulling images takes seconds.
    std::chrono::milliseconds reply{10'000};
    /// Besides events: a stream that is silent because it hangs looks as one where nothing happens.
    std::chrono::milliseconds list_again{60'000};
  };

  static Result<std::unique_ptr<DockerWatch>> start(Options options,
                                                    std::shared_ptr<ContainerMailbox> reports);
  ~DockerWatch();
  DockerWatch(const DockerWatch&) = delete;
  DockerWatch& operator=(const DockerWatch&) = delete;

  /// The names, or ids, to tell of. With none dockerd is left alone.
  void follow(std::set<std::string> names);

 private:
  class Impl;
  explicit DockerWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace andiron::probe
