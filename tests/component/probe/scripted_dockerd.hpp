// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/unique_fd.hpp"

namespace andiron::testing {

/// What a dockerd may do on its socket, as a test says it: also what a good one never does.
/// Thread: the test's; a thread of its own serves.
class ScriptedDockerd {
 public:
  struct Container {
    std::string name;
    int pid = 0;
    std::string started_at = "2026-11-29T10:00:00.5Z";
  };
  enum class Manner { good, silent, garbage, refusing, endless_list };

  explicit ScriptedDockerd(std::string path, Manner manner = Manner::good);
  ~ScriptedDockerd();

  void set(const std::string& id, Container container);
  void remove(const std::string& id);
  void behave(Manner manner);
  /// Sends bytes to every subscriber, as one chunk.
  void say(const std::string& bytes);
  /// A line as dockerd writes it.
  void say_event(const std::string& action, const std::string& id, const std::string& name,
                 const std::string& time_ns);
  /// Hangs up on all subscribers.
  void hang_up();

  std::size_t subscribers();
  /// The targets that were asked for so far, in order.
  std::vector<std::string> requests();

 private:
  void serve();
  void answer(UniqueFd client);
  std::string body_for(const std::string& target, int& status);

  std::string path_;
  UniqueFd listener_;
  UniqueFd stop_;
  std::mutex mutex_;
  Manner manner_;
  std::map<std::string, Container> containers_;
  std::vector<std::string> requests_;
  std::vector<UniqueFd> streams_;
  std::vector<UniqueFd> ignored_;
  std::thread thread_;
};

}  // namespace andiron::testing
