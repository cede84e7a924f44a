// SPDX-License-Identifier: MIT
#include "agent/api/local_socket.hpp"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace andiron::api {
namespace {

// More than all connections that we serve; who connects past that waits in connect(2).
constexpr int kListenBacklog = 512;
// getgrnam_r wants room for the whole member list; a directory service may have long ones.
constexpr std::size_t kMaxGroupEntry = std::size_t{1} << 20;

std::optional<gid_t> find_group(const std::string& name) {
  std::vector<char> room(4096);
  while (true) {
    group entry{};
    group* found = nullptr;
    const int error = ::getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
    if (error == EINTR) continue;
    if (error == ERANGE && room.size() < kMaxGroupEntry) {
      room.resize(room.size() * 2);
      continue;
    }
    if (error != 0 || found == nullptr) return std::nullopt;
    return entry.gr_gid;
  }
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.find('\0') != std::string::npos)
    return make_error(Errc::bad_config, "a socket needs a path without NUL bytes");
  if (path.size() >= sizeof address.sun_path) {
    return make_error(Errc::bad_config, "socket '" + path + "': the path is " +
                                            std::to_string(path.size()) +
                                            " bytes long, and a socket's may have " +
                                            std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<void> remove_stale(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return make_system_error(errno, "socket '" + path + "'");
  }
  if (!S_ISSOCK(status.st_mode)) {
    return make_system_error(
        EEXIST, "socket '" + path + "': something that is not a socket is in its place");
  }
  if (::unlink(path.c_str()) != 0)
    return make_system_error(errno, "remove the stale socket '" + path + "'");
  return {};
}

}  // namespace

Result<LocalSocket> LocalSocket::create(const std::string& path, const std::string& group,
                                        LocalSocketKind kind) {
  const sockaddr_un address = TRY(address_of(path));
  TRY(remove_stale(path));

  LocalSocket made;
  made.fd_ = UniqueFd(::socket(AF_UNIX, kind.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.fd_) return make_system_error(errno, "socket");
  // The file is born with the socket's own mode, less the umask, so this closes it to strangers
  // without touching the umask, which all threads share. And until listen(), nobody connects.
  if (::fchmod(made.fd_.get(), 0600) != 0) return make_system_error(errno, "fchmod of a socket");
  if (::bind(made.fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return make_system_error(errno, "bind the socket '" + path + "'");
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return make_system_error(errno, "socket '" + path + "'");
  made.path_ = path;
  made.device_ = status.st_dev;
  made.inode_ = status.st_ino;

  made.named_ = path;
  // By path: its folder belongs to the agent, and the caller holds its lock.
  const std::optional<gid_t> gid = find_group(group);
  const bool given = gid && ::lchown(path.c_str(), static_cast<uid_t>(-1), *gid) == 0;
  made.group_missing_ = !given;
  TRY(made.let_in(kind.everybody));
  if (::listen(made.fd_.get(), kListenBacklog) != 0)
    return make_system_error(errno, "listen on '" + path + "'");
  return made;
}

Result<LocalSocket> LocalSocket::adopt(UniqueFd listening, const std::string& group) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return make_system_error(errno, "the socket that was handed over");
  LocalSocket made;
  made.fd_ = std::move(listening);
  // Only to say whom it lets in: the file's owner and mode are its maker's.
  struct stat status {};
  const std::optional<gid_t> gid = find_group(group);
  made.group_missing_ = !gid || ::lstat(address.sun_path, &status) != 0 || status.st_gid != *gid ||
                        (status.st_mode & 0060U) != 0060U;
  made.named_ = address.sun_path;
  return made;
}

Result<void> LocalSocket::let_in(bool everybody) {
  const mode_t closed = group_missing_ ? 0600 : 0660;
  if (::chmod(named_.c_str(), everybody ? 0666 : closed) != 0)
    return make_system_error(errno, "chmod the socket '" + named_ + "'");
  return {};
}

LocalSocket::LocalSocket(LocalSocket&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::exchange(other.path_, {})),
      named_(std::move(other.named_)),
      device_(other.device_),
      inode_(other.inode_),
      group_missing_(other.group_missing_) {}

LocalSocket::~LocalSocket() {
  if (!path_.empty() && in_place()) ::unlink(path_.c_str());
}

bool LocalSocket::in_place() const noexcept {
  if (path_.empty()) return true;
  struct stat status {};
  return ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

}  // namespace andiron::api
