// SPDX-License-Identifier: MIT
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <string>

#include "agent/tier/pinned_folder.hpp"

namespace andiron::tier {
namespace {

constexpr const char* kAcl = "system.posix_acl_access";

/// ACLs that say more than the mode. Where none can be asked for there are none.
bool has_acl(const std::string& path) { return ::getxattr(path.c_str(), kAcl, nullptr, 0) > 0; }

}  // namespace

Result<CopyAccess> access_of_copy(const std::string& path, int fd) {
  const os::FileInfo info = TRY(os::stat_fd(fd));
  // In a guest: whom its folders let through are its own users, and no concern of this machine's.
  if (!path.starts_with('/')) return CopyAccess{0, 0, S_IRUSR};
  CopyAccess access{info.uid, info.gid, info.mode & 0444};
  bool acl = ::fgetxattr(fd, kAcl, nullptr, 0) > 0;
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos && !acl;
       slash = slash == 0 ? std::string::npos : path.rfind('/', slash - 1)) {
    const std::string folder = slash == 0 ? "/" : path.substr(0, slash);
    struct stat above {};
    if (::stat(folder.c_str(), &above) != 0) return make_system_error(errno, folder);
    acl = has_acl(folder);
    const bool others = (above.st_mode & S_IXOTH) != 0;
    const bool group = above.st_gid == info.gid && (above.st_mode & S_IXGRP) != 0;
    if (!others) access.mode &= ~static_cast<mode_t>(S_IROTH);
    // Of a folder of another group, the file's group is among the others, or is not let in.
    if (!group && !(others && above.st_gid != info.gid))
      access.mode &= ~static_cast<mode_t>(S_IRGRP);
  }
  if (acl) return CopyAccess{0, 0, S_IRUSR};
  return access;
}

}  // namespace andiron::tier
