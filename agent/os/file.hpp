// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::os {

/// What must not change for cached weights to be the file's weights.
struct FileIdentity {
  std::uint64_t dev = 0;  // st_dev as stat(2) gives it (on btrfs and overlayfs not the bdi's)
  std::uint64_t ino = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct FileInfo {
  FileIdentity identity;
  mode_t mode = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::uint64_t nlink = 0;
};

/// Opens a regular file to read: O_CLOEXEC, O_NONBLOCK (a FIFO or a device must not hang us),
/// O_NOATIME where allowed. Errors: not_regular_file, or open(2)'s own. Blocks: as the file
/// system does; a network file system that went away blocks for good, so never on the loop.
Result<UniqueFd> open_regular(const std::string& path);

Result<FileInfo> stat_fd(int fd);
/// The same, of what this kernel knows already: no file server is asked, that might not answer.
Result<FileInfo> cached_stat_fd(int fd);
Result<FileInfo> stat_path(const std::string& path);  // follows symlinks

/// Is it a regular file by name only, whose content the kernel makes up as it is read (procfs,
/// sysfs and their like)? Reading one may do something, and none has pages to keep.
bool is_made_by_kernel(int fd);

/// The kind of file system below an open file, as far as it changes what Andiron does.
struct FilesystemTraits {
  std::string type;                 // "ext4", "overlay", "nfs4", "zfs", ...
  bool network = false;             // NFS, CIFS, 9p, virtiofs and FUSE: may stall, may drop pages
  bool page_cache_reliable = true;  // false on ZFS (ARC), FUSE with direct_io, 9p without cache
  bool memory_backed = false;       // tmpfs, ramfs: always resident unless swapped
};
Result<FilesystemTraits> filesystem_traits(int fd);

}  // namespace andiron::os
