// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "agent/core/world.hpp"
#include "agent/os/service_manager.hpp"

namespace boost::asio {
class io_context;
}

namespace andiron::core {

/// Tells the service manager how things stand, where one asked: ready, reloading, stopping, a
/// sentence for `systemctl status`, and that the control loop still turns. That last one is a timer
/// of the loop's, at half the time that the manager waits for it, so that a stuck handler is seen.
/// Thread: the loop's. Never blocks.
class ServiceReports {
 public:
  ServiceReports(boost::asio::io_context& loop, os::ServiceManager manager);
  ~ServiceReports();

  /// From the loop, once it turns and clients can be served.
  void ready();
  void reload_began();
  void reload_ended();
  void stopping();
  /// Once a second: says what changed, and again what found no room.
  void tick(const World& world);

 private:
  class Watchdog;
  enum class Phase { starting, running, reloading, stopping };

  void enter(Phase phase);
  bool tell_phase();

  os::ServiceManager manager_;
  Phase phase_ = Phase::starting;
  bool phase_told_ = true;
  std::string sentence_;  // as it was told last
  std::unique_ptr<Watchdog> watchdog_;
};

/// "2 of 3 models are warm, 12 GiB of 16 GiB held". Pure.
std::string service_sentence(const World& world);

}  // namespace andiron::core
