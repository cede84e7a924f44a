// SPDX-License-Identifier: MIT
#include "agent/probe/local_stream.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace andiron::probe {

Result<LocalStream> LocalStream::connect(const std::string& path, int stop) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path || path.find('\0') != std::string::npos) {
    return make_error(Errc::bad_config, path + ": too long for the name of a socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return make_system_error(errno, "socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return make_system_error(errno, path);
  }
  return LocalStream(std::move(fd), stop);
}

Result<void> LocalStream::wait(short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    std::array<pollfd, 2> fds{{{fd_.get(), events, 0}, {stop_, POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(),
                             static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
    if (ready < 0 && errno != EINTR) return make_system_error(errno, "poll");
    if (ready > 0 && fds[1].revents != 0) return make_error(Errc::cancelled, "stopping");
    if (ready > 0) return {};
    if (ready == 0 && left.count() <= 0) return make_error(Errc::timeout, "no answer");
  }
}

Result<void> LocalStream::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      TRY(wait(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return make_system_error(errno, "send");
    }
  }
  return {};
}

Result<std::size_t> LocalStream::receive(std::span<char> into, Deadline deadline) {
  while (true) {
    TRY(wait(POLLIN, deadline));
    const ssize_t got = ::recv(fd_.get(), into.data(), into.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EAGAIN && errno != EINTR) return make_system_error(errno, "receive");
  }
}

}  // namespace andiron::probe
