// SPDX-License-Identifier: MIT
#include "agent/probe/watch_thread.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace andiron::probe {
namespace {

void signal(const UniqueFd& fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd.get(), &one, sizeof one);
}

}  // namespace

Result<std::unique_ptr<WatchThread>> WatchThread::create() {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop || !wake) return make_system_error(errno, "eventfd");
  return std::unique_ptr<WatchThread>(new WatchThread(std::move(stop), std::move(wake)));
}

WatchThread::~WatchThread() {
  signal(stop_);
  if (thread_.joinable()) thread_.join();
}

void WatchThread::start(std::function<void()> run) {
  thread_ = std::thread([run = std::move(run)]() noexcept { run(); });
}

void WatchThread::follow(std::set<std::string> names) {
  const std::lock_guard lock(mutex_);
  names_ = std::move(names);
  signal(wake_);
}

std::optional<std::set<std::string>> WatchThread::take_names() {
  std::uint64_t count = 0;
  const std::lock_guard lock(mutex_);
  if (::read(wake_.get(), &count, sizeof count) < 0) return std::nullopt;
  return names_;
}

bool WatchThread::wait(int fd, std::optional<std::chrono::milliseconds> patience) const {
  constexpr std::int64_t kLongest = 1 << 30;
  const int timeout =
      patience ? static_cast<int>(std::clamp<std::int64_t>(patience->count(), 0, kLongest)) : -1;
  std::array<pollfd, 3> fds{{{stop_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {fd, POLLIN, 0}}};
  [[maybe_unused]] const int ready = ::poll(fds.data(), fds.size(), timeout);
  return fds[0].revents == 0;
}

}  // namespace andiron::probe
