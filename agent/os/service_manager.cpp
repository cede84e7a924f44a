// SPDX-License-Identifier: MIT
#include "agent/os/service_manager.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

namespace andiron::os {
namespace {

/// What sd_listen_fds_with_names gives: the list and each name are malloc's.
struct FreeNames {
  void operator()(char** names) const noexcept {
    for (char** name = names; *name != nullptr; ++name)
      ::free(*name);
    ::free(names);
  }
};

/// Where NOTIFY_SOCKET leads. sd_notify(3) would do all of it, but reads that variable each time,
/// and blocks while the manager's queue is full.
Result<NotifyAddress> address_of(std::string path) {
  NotifyAddress address;
  if (path.size() >= sizeof address.where.sun_path || (path[0] != '/' && path[0] != '@')) {
    return make_error(Errc::bad_config, fmt::format("NOTIFY_SOCKET=\"{}\" is no socket", path));
  }
  const std::size_t length = path.size();
  if (path[0] == '@') path[0] = '\0';  // the abstract namespace
  address.where.sun_family = AF_UNIX;
  std::memcpy(address.where.sun_path, path.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  return address;
}

/// The clock of MONOTONIC_USEC, which is systemd's own.
std::uint64_t monotonic_microseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

}  // namespace

Result<ServiceManager> ServiceManager::from_environment() {
  constexpr int kUnset = 1;
  ServiceManager manager;
  // First of all, so that an error below leaves no variable behind.
  const char* variable = ::getenv("NOTIFY_SOCKET");
  const std::string path = variable != nullptr ? variable : "";
  ::unsetenv("NOTIFY_SOCKET");
  std::uint64_t watchdog = 0;
  const int watched = ::sd_watchdog_enabled(kUnset, &watchdog);

  char** raw_names = nullptr;
  const int count = ::sd_listen_fds_with_names(kUnset, &raw_names);
  const std::unique_ptr<char*, FreeNames> names(raw_names);
  if (count < 0) return make_system_error(-count, "LISTEN_FDS");
  for (int i = 0; i < count; ++i) {
    const char* name = raw_names != nullptr ? raw_names[i] : "unknown";
    manager.passed_.push_back({name, UniqueFd(SD_LISTEN_FDS_START + i)});
  }

  if (watched > 0 && watchdog > 0) {
    manager.watchdog_ = std::chrono::microseconds(static_cast<std::int64_t>(watchdog));
  }
  if (!path.empty()) {
    manager.address_ = TRY(address_of(path));
    manager.notify_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!manager.notify_) return make_system_error(errno, "a socket for NOTIFY_SOCKET");
  }
  return manager;
}

Result<std::optional<UniqueFd>> ServiceManager::take_unix_listener(std::string_view name,
                                                                   int type) {
  for (auto passed = passed_.begin(); passed != passed_.end(); ++passed) {
    if (passed->name != name) continue;
    UniqueFd fd = std::move(passed->fd);
    passed_.erase(passed);
    if (::sd_is_socket_unix(fd.get(), type, 1, nullptr, 0) <= 0) {
      return make_error(Errc::bad_config,
                        fmt::format("what the service manager passes as \"{}\" is not a listening "
                                    "Unix {} socket",
                                    name, type == SOCK_STREAM ? "stream" : "packet"));
    }
    // The open file is the manager's too, which opens it so itself (systemd) or does not mind.
    const int flags = ::fcntl(fd.get(), F_GETFL);
    if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      return make_system_error(errno, "a socket of the service manager");
    }
    return std::optional<UniqueFd>(std::move(fd));
  }
  return std::optional<UniqueFd>();
}

std::vector<std::string> ServiceManager::close_the_rest() {
  std::vector<std::string> names;
  for (Passed& passed : passed_)
    names.push_back(std::move(passed.name));
  passed_.clear();
  return names;
}

bool ServiceManager::reloading() {
  return tell(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_microseconds()));
}

bool ServiceManager::describe(std::string_view sentence) {
  std::string message = "STATUS=";
  // A newline would begin another assignment.
  for (const char c : sentence)
    message += c == '\n' ? ' ' : c;
  return tell(message);
}

bool ServiceManager::tell(std::string_view message) {
  if (!notify_) return true;
  ssize_t sent = 0;
  do {
    // To the address each time: a manager that started anew has another socket there.
    sent = ::sendto(notify_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address_.where), address_.size);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

}  // namespace andiron::os
