// SPDX-License-Identifier: MIT
// With real sockets, each case in a process of its own: descriptors from 3 on and the environment
// belong to the whole process. tests/e2e/service.py has the agent's side.
#include "agent/os/service_manager.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

int bound_socket(int type, const std::string& path) {
  const int fd = ::socket(AF_UNIX, type, 0);
  const sockaddr_un address = address_of(path);
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  return fd >= 0 && ::bind(fd, any, sizeof address) == 0 ? fd : -1;
}

std::string receive(int fd) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  return count < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(count));
}

/// Fails this process, which has no other way to say so.
void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not so: %s\n", what);
  ::_exit(1);
}

[[noreturn]] void hand_over_everything(const std::string& folder) {
  const int manager = bound_socket(SOCK_DGRAM, folder + "/notify");
  const int listener = bound_socket(SOCK_STREAM, folder + "/control");
  require(manager >= 0 && listener >= 0 && ::listen(listener, 1) == 0, "sockets");
  // Out of the way of 3 and 4 first.
  const int heard = ::fcntl(manager, F_DUPFD_CLOEXEC, 50);
  const int passed = ::fcntl(listener, F_DUPFD, 60);
  require(::dup2(passed, 3) == 3 && ::dup2(heard, 4) == 4, "dup2");
  ::setenv("NOTIFY_SOCKET", (folder + "/notify").c_str(), 1);
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "2", 1);
  ::setenv("LISTEN_FDNAMES", "control:odd", 1);

  auto service = ServiceManager::from_environment();
  require(service.has_value(), "from_environment");
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID",
                           "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    require(::getenv(name) == nullptr, name);
  }
  require(service->present() && service->watchdog() == std::chrono::seconds(3), "watchdog");

  auto none = service->take_unix_listener("lease");
  require(none && !*none, "a name that nobody passed");
  auto control = service->take_unix_listener("control");
  require(control && *control && (*control)->get() == 3, "control");
  require((::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
  require((::fcntl(3, F_GETFL) & O_NONBLOCK) != 0, "non-blocking");
  require(service->close_the_rest() == std::vector<std::string>{"odd"}, "the rest");
  require(::fcntl(4, F_GETFD) < 0, "the rest is closed");

  require(service->describe("two\nlines") && receive(heard) == "STATUS=two lines", "describe");
  require(service->ready() && receive(heard) == "READY=1", "ready");
  require(service->reloading(), "reloading");
  require(receive(heard).starts_with("RELOADING=1\nMONOTONIC_USEC="), "MONOTONIC_USEC");
  ::unlink((folder + "/notify").c_str());
  require(!service->alive(), "nobody listens");
  ::_exit(0);
}

TEST(ServiceManagerDeathTest, TakesWhatIsHandedOverAndTells) {
  const testing::TempDir folder;
  EXPECT_EXIT(hand_over_everything(folder.path().string()), ::testing::ExitedWithCode(0), "");
}

TEST(ServiceManagerDeathTest, IsSilentWhereThereIsNone) {
  const auto check = [] {
    auto service = ServiceManager::from_environment();
    require(service && !service->present() && !service->watchdog(), "nothing is there");
    require(service->ready() && service->close_the_rest().empty(), "and nothing is done");
    ::_exit(0);
  };
  EXPECT_EXIT(check(), ::testing::ExitedWithCode(0), "");
}

TEST(ServiceManagerDeathTest, RefusesWhatCannotBe) {
  const auto error_of = [](const char* name, const char* value) {
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv(name, value, 1);
    const auto service = ServiceManager::from_environment();
    require(!service, "an error");
    require(::getenv(name) == nullptr, "still taken out of the environment");
    ::_exit(0);
  };
  EXPECT_EXIT(error_of("NOTIFY_SOCKET", "no/path"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(error_of("NOTIFY_SOCKET", std::string(300, '/').c_str()),
              ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(error_of("LISTEN_FDS", "500"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace andiron::os
