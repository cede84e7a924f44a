// SPDX-License-Identifier: MIT
#include "agent/probe/hook_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/probe/hook_report.hpp"

namespace andiron::probe {
namespace {

/// The sender, as the kernel vouches for it.
bool is_trusted(const msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    return sender.uid == 0 || sender.uid == ::geteuid();
  }
  return false;
}

Result<void> remove_stale(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return make_system_error(errno, path);
  }
  if (!S_ISSOCK(status.st_mode)) {
    return make_system_error(EEXIST, path + ": something that is not a socket is in its place");
  }
  if (::unlink(path.c_str()) != 0) return make_system_error(errno, path);
  return {};
}

}  // namespace

Result<HookSocket> HookSocket::create(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return make_error(Errc::bad_config, path + ": too long for the name of a socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  TRY(remove_stale(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return make_system_error(errno, "socket");
  const int on = 1;
  // Before it has a name: no datagram comes without credentials, and the file is born 0600.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      ::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return make_system_error(errno, path);
  }
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0) return make_system_error(errno, path);
  return HookSocket(std::move(fd), path, named.st_dev, named.st_ino);
}

HookSocket::HookSocket(HookSocket&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_),
      dropped_(other.dropped_) {}

HookSocket::~HookSocket() {
  if (in_place()) ::unlink(path_.c_str());
}

bool HookSocket::in_place() const noexcept {
  struct stat named {};
  return !path_.empty() && ::lstat(path_.c_str(), &named) == 0 && named.st_dev == device_ &&
         named.st_ino == inode_;
}

std::vector<std::string> HookSocket::drain() {
  std::vector<std::string> reports;
  std::string buffer(kMaxHookReport, '\0');
  for (int i = 0; i < kMaxAtOnce; ++i) {
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) break;  // EAGAIN: all was taken
    const bool whole = (message.msg_flags & MSG_TRUNC) == 0;
    if (whole && is_trusted(message)) {
      reports.emplace_back(buffer.data(), static_cast<std::size_t>(got));
    } else {
      ++dropped_;
    }
  }
  return reports;
}

}  // namespace andiron::probe
