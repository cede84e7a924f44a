// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agent/base/result.hpp"
#include "agent/config/compile.hpp"
#include "agent/os/service_manager.hpp"

namespace andiron::core {

struct AgentOptions {
  std::string config_path;  // empty: no file, an agent of defaults
  std::string runtime_dir;
  std::string state_dir;
  config::Settings settings;  // as compiled from config_path
  std::map<std::string, std::string> environment;
  os::ServiceManager service;  // with its socket "control", where it passes one
};

/// The composition root: makes the parts, wires them, runs the control loop, and takes them down
/// in order. Thread: create, run and destruction on one. Blocks: run, until a signal ends it.
class Agent {
 public:
  /// Owns the runtime folder, listens (or takes the service manager's socket), and starts warming
  /// what is to be warm. Errors: already_running, and whatever keeps it from making its folders or
  /// its socket.
  static Result<std::unique_ptr<Agent>> create(AgentOptions options);
  ~Agent();

  /// Until SIGTERM or SIGINT. False when a thread is stuck in the kernel: then nothing may be
  /// destroyed, and the process has to end by _exit.
  bool run();

 private:
  class Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace andiron::core
