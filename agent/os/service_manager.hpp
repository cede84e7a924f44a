// SPDX-License-Identifier: MIT
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::os {

struct NotifyAddress {
  sockaddr_un where{};
  socklen_t size = 0;
};

/// The service manager that started this process: what it hands over (sockets, a watchdog) and how
/// it is told how things stand, by the protocol of sd_notify(3). Without one, all of this is empty
/// and says nothing.
/// Thread: one. Owns: the sockets until they are taken, and one for telling.
/// Blocks: never. On failure: a message that the manager has no room for is lost; false says so.
class ServiceManager {
 public:
  /// Takes NOTIFY_SOCKET, LISTEN_* and WATCHDOG_* out of the environment, so that no child believes
  /// that they are for it. Call once, before there are threads. Errors: what was announced is not
  /// there, such as a descriptor of LISTEN_FDS.
  static Result<ServiceManager> from_environment();

  ServiceManager() = default;  // none

  bool present() const noexcept { return static_cast<bool>(notify_); }
  /// How long it may hear nothing before it takes this process for stuck; nullopt: it does not.
  std::optional<std::chrono::microseconds> watchdog() const noexcept { return watchdog_; }

  /// The listening socket that was handed over under that name; nullopt where none was. Errors:
  /// bad_config where it is something else than a listening Unix socket of that type.
  Result<std::optional<UniqueFd>> take_unix_listener(std::string_view name, int type = SOCK_STREAM);
  /// Closes what nobody took, and gives the names.
  std::vector<std::string> close_the_rest();

  bool ready() { return tell("READY=1"); }
  /// ready() ends it.
  bool reloading();
  bool stopping() { return tell("STOPPING=1"); }
  bool alive() { return tell("WATCHDOG=1"); }
  /// A sentence for `systemctl status`.
  bool describe(std::string_view sentence);

 private:
  struct Passed {
    std::string name;
    UniqueFd fd;
  };

  bool tell(std::string_view message);

  UniqueFd notify_;
  NotifyAddress address_;
  std::optional<std::chrono::microseconds> watchdog_;
  std::vector<Passed> passed_;
};

}  // namespace andiron::os
