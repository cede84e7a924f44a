// SPDX-License-Identifier: MIT
#include "agent/os/path_opener.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

#include "agent/base/guest_source.hpp"
#include "agent/os/file.hpp"

namespace andiron::os {
namespace {

std::string fd_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool is_folder(const UniqueFd& fd) {
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

Result<const GuestRoot*> PathOpener::guest(std::string_view name) {
  auto known = guests_.find(name);
  if (known == guests_.end()) {
    known = guests_.emplace(std::string(name), GuestRoot::open(name, places_)).first;
  }
  if (!known->second) return known->second.error();
  return &*known->second;
}

Result<UniqueFd> PathOpener::open_regular(const std::string& path) {
  const auto inside = split_guest_path(path);
  if (!inside) return os::open_regular(path);
  const GuestRoot* root = TRY(guest(inside->guest));
  const UniqueFd found = TRY(root->open_exact(std::string(inside->rest)).wrap(path));
  // A FIFO or a device is known by that descriptor, and not opened; nothing can be put in its
  // place any longer.
  Result<UniqueFd> fd = os::open_regular(fd_path(found.get()));
  if (!fd) fd.error().context = path;
  return fd;
}

Result<UniqueFd> PathOpener::open_nearest_folder(const std::string& path) {
  const auto inside = split_guest_path(path);
  const GuestRoot* root = inside ? TRY(guest(inside->guest)) : nullptr;
  std::string at(inside ? inside->rest : path);
  for (;;) {
    if (at.empty()) at = "/";
    if (root != nullptr) {
      auto fd = root->open_exact(at);
      if (fd && is_folder(*fd)) return fd;
    } else {
      UniqueFd fd(::open(at.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (fd) return fd;
    }
    const std::size_t slash = at.rfind('/');
    if (at == "/" || slash == std::string::npos) return make_system_error(ENOENT, path);
    at.resize(slash);
  }
}

}  // namespace andiron::os
