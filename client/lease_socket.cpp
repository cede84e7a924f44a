// SPDX-License-Identifier: MIT
#include "client/lease_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace andiron::client {
namespace {

// As many as the kernel passes in one packet (SCM_MAX_FD), so that too many are seen and closed
// here instead of being cut off.
constexpr std::size_t kRoomForFds = 253;
// poll() counts in an int; it is called again where that is not enough.
constexpr std::chrono::milliseconds kLongestPoll = std::chrono::hours(1);

std::chrono::microseconds left_until(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max(std::chrono::duration_cast<std::chrono::microseconds>(left),
                  std::chrono::microseconds(0));
}

Error socket_error(int errno_value, const char* doing) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
      return make_error(Errc::unavailable,
                        std::string("there is no agent: ") + std::strerror(errno_value));
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return make_error(Errc::unavailable, "the agent hung up");
    case EAGAIN:
      return make_error(Errc::timeout, doing);
    case EPROTOTYPE:  // Somebody else's socket.
      return make_error(Errc::unavailable, "what listens there is no agent");
    default:
      return make_system_error(errno_value, doing);
  }
}

/// Takes over the descriptors of a message.
std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  fds.reserve(kRoomForFds);  // Nothing below throws while a descriptor has no owner.
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<LeaseSocket> LeaseSocket::connect(const std::string& path, Deadline deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return make_error(Errc::bad_request, "no path of a socket: '" + path.substr(0, 128) + "'");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return make_system_error(errno, "socket");
  // A listener with a full backlog has connect() block, and only the send timeout ends that.
  while (true) {
    const auto left = std::max(left_until(deadline), std::chrono::microseconds(1000));
    timeval patience{};
    patience.tv_sec = static_cast<time_t>(left.count() / 1000000);
    patience.tv_usec = static_cast<suseconds_t>(left.count() % 1000000);
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0)
      return make_system_error(errno, "setsockopt");
    // NOLINTNEXTLINE: what the sockets' interface wants.
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
      return LeaseSocket(std::move(fd));
    if (errno != EINTR) return socket_error(errno, "connect to the agent");
    if (left_until(deadline).count() == 0) return make_error(Errc::timeout, "connect to the agent");
  }
}

Result<void> LeaseSocket::wait(short events, Deadline deadline) const {
  while (true) {
    const auto left = left_until(deadline);
    const auto step = std::min(std::chrono::ceil<std::chrono::milliseconds>(left), kLongestPoll);
    pollfd wanted{fd_.get(), events, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(step.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return make_system_error(errno, "poll");
    if (left.count() == 0) return make_error(Errc::timeout, "the agent did not answer");
  }
}

Result<void> LeaseSocket::send(std::string_view text, int fd, Deadline deadline) {
  if (text.size() > kMaxPacketBytes) return make_error(Errc::too_large, "request");
  std::string copy(text);
  iovec part{copy.data(), copy.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  while (true) {
    TRY(wait(POLLOUT, deadline));
    if (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno != EINTR && errno != EAGAIN) return socket_error(errno, "ask the agent");
    if (left_until(deadline).count() == 0) return make_error(Errc::timeout, "ask the agent");
  }
}

Result<std::optional<Packet>> LeaseSocket::receive_now() {
  Packet packet;
  // Not zeroed: most packets are a hundred bytes.
  const auto room = std::make_unique_for_overwrite<char[]>(kMaxPacketBytes);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kRoomForFds)] = {};
  iovec part{room.get(), kMaxPacketBytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = -1;
  do {
    got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return std::optional<Packet>();
  if (got < 0) return socket_error(errno, "hear from the agent");
  packet.fds = take_fds(message);
  // An empty packet looks like the end; the protocol has none.
  if (got == 0) return make_error(Errc::unavailable, "the agent hung up");
  if ((message.msg_flags & MSG_TRUNC) != 0)
    return make_error(Errc::bad_format, "a packet from the agent that is too long");
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    return make_error(Errc::io_error, "not all descriptors came: see the limit of open files");
  if (packet.fds.size() > kMaxPacketFds)
    return make_error(Errc::bad_format, "too many descriptors in a packet from the agent");
  packet.text.assign(room.get(), static_cast<std::size_t>(got));
  return std::optional<Packet>(std::move(packet));
}

Result<Packet> LeaseSocket::receive(Deadline deadline) {
  while (true) {
    // First looked, then waited: of many packets, the next is mostly there.
    std::optional<Packet> packet = TRY(receive_now());
    if (packet) return std::move(*packet);
    TRY(wait(POLLIN, deadline));
  }
}

}  // namespace andiron::client
