// SPDX-License-Identifier: MIT
#include "agent/os/file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include "agent/os/mounts.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

FileInfo info_of(const struct stat& status) {
  FileInfo info;
  info.identity = {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                   nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
  info.mode = status.st_mode;
  info.uid = status.st_uid;
  info.gid = status.st_gid;
  info.nlink = status.st_nlink;
  return info;
}

struct MagicName {
  std::uint64_t magic;
  const char* name;
};

/// statfs(2) magics, for a file whose mount is not in our namespace (an fd that was passed to us).
/// Those that linux/magic.h lacks are from the file systems' own sources.
constexpr std::array<MagicName, 20> kMagics{{{EXT4_SUPER_MAGIC, "ext4"},
                                             {XFS_SUPER_MAGIC, "xfs"},
                                             {BTRFS_SUPER_MAGIC, "btrfs"},
                                             {OVERLAYFS_SUPER_MAGIC, "overlay"},
                                             {TMPFS_MAGIC, "tmpfs"},
                                             {RAMFS_MAGIC, "ramfs"},
                                             {HUGETLBFS_MAGIC, "hugetlbfs"},
                                             {NFS_SUPER_MAGIC, "nfs"},
                                             {0xFF534D42, "cifs"},
                                             {0xFE534D42, "smb3"},
                                             {V9FS_MAGIC, "9p"},
                                             {FUSE_SUPER_MAGIC, "fuse"},
                                             {0x2FC12FC1, "zfs"},
                                             {0xCA451A4E, "bcachefs"},
                                             {F2FS_SUPER_MAGIC, "f2fs"},
                                             {0x00C36400, "ceph"},
                                             {SQUASHFS_MAGIC, "squashfs"},
                                             {EROFS_SUPER_MAGIC_V1, "erofs"},
                                             {0x2011BAB0, "exfat"},
                                             {0x7366746E, "ntfs3"}}};

/// The mount that an fd was opened through, by the id in its fdinfo; nullopt when the mount is in
/// another namespace or gone.
std::optional<Mount> mount_of(int fd) {
  const Result<std::string> text = read_text("/proc/self/fdinfo/" + std::to_string(fd));
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n')) {
    if (!line.starts_with("mnt_id:")) continue;
    const std::optional<std::uint64_t> id = parse_number(line.substr(7));
    Result<std::vector<Mount>> mounts = read_mounts();
    if (!id || !mounts) return std::nullopt;
    for (Mount& mount : *mounts) {
      if (mount.id == *id) return std::move(mount);
    }
  }
  return std::nullopt;
}

/// A FUSE file opened with direct_io refuses a shared mapping: ENODEV (fs/fuse/file.c).
bool fuse_bypasses_page_cache(int fd) {
  void* page = ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return true;
  ::munmap(page, 1);
  return false;
}

/// 9p caches nothing unless its mount says so, and with "mmap" only what is mapped.
bool plan9_caches(std::string_view options) {
  for (const std::string_view option : split(options, ',')) {
    if (!option.starts_with("cache=")) continue;
    const std::string_view mode = option.substr(6);
    return mode != "none" && mode != "mmap" && mode != "0";
  }
  return false;
}

}  // namespace

Result<UniqueFd> open_regular(const std::string& path) {
  // First the stat: opening a device can have effects of its own (a tape rewinds).
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return make_system_error(errno, "open " + path);
  if (!S_ISREG(status.st_mode)) return make_error(Errc::not_regular_file, path);

  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(path.c_str(), kFlags | O_NOATIME));
  // O_NOATIME is for the owner and CAP_FOWNER; others still may read.
  if (!fd && errno == EPERM) fd = UniqueFd(::open(path.c_str(), kFlags));
  if (!fd) return make_system_error(errno, "open " + path);
  if (::fstat(fd.get(), &status) != 0) return make_system_error(errno, "fstat " + path);
  if (!S_ISREG(status.st_mode)) return make_error(Errc::not_regular_file, path);

  // O_NONBLOCK has done its work. It must not stay: io_uring answers EAGAIN to a nonblocking file
  // on file systems that cannot promise not to wait.
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return make_system_error(errno, "fcntl " + path);
  }
  return fd;
}

Result<FileInfo> stat_fd(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return make_system_error(errno, "fstat");
  return info_of(status);
}

Result<FileInfo> cached_stat_fd(int fd) {
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status) != 0)
    return make_system_error(errno, "statx");
  const auto nanoseconds_of = [](const statx_timestamp& time) {
    return nanoseconds({static_cast<time_t>(time.tv_sec), static_cast<long>(time.tv_nsec)});
  };
  FileInfo info;
  info.identity = {makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino,
                   status.stx_size, nanoseconds_of(status.stx_mtime),
                   nanoseconds_of(status.stx_ctime)};
  info.mode = status.stx_mode;
  info.uid = status.stx_uid;
  info.gid = status.stx_gid;
  info.nlink = status.stx_nlink;
  return info;
}

Result<FileInfo> stat_path(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return make_system_error(errno, "stat " + path);
  return info_of(status);
}

bool is_made_by_kernel(int fd) {
  constexpr std::array<std::uint64_t, 14> kMadeUp{
      PROC_SUPER_MAGIC, SYSFS_MAGIC,    DEBUGFS_MAGIC,      TRACEFS_MAGIC,       SECURITYFS_MAGIC,
      SELINUX_MAGIC,    SMACK_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,
      PSTOREFS_MAGIC,   EFIVARFS_MAGIC, BINFMTFS_MAGIC,     0x62656570 /* configfs */};
  struct statfs status {};
  if (::fstatfs(fd, &status) != 0) return false;
  const auto magic = static_cast<std::uint64_t>(static_cast<std::uint32_t>(status.f_type));
  return std::find(kMadeUp.begin(), kMadeUp.end(), magic) != kMadeUp.end();
}

Result<FilesystemTraits> filesystem_traits(int fd) {
  struct statfs status {};
  if (::fstatfs(fd, &status) != 0) return make_system_error(errno, "fstatfs");
  const auto magic = static_cast<std::uint64_t>(static_cast<std::uint32_t>(status.f_type));
  const std::optional<Mount> mount = mount_of(fd);
  FilesystemTraits traits;
  if (mount) {
    traits.type = mount->type;
  } else {
    const auto* known = std::find_if(kMagics.begin(), kMagics.end(),
                                     [&](const MagicName& entry) { return entry.magic == magic; });
    traits.type = known != kMagics.end() ? known->name : "unknown";
  }
  switch (magic) {
    case NFS_SUPER_MAGIC:
    case 0xFF534D42:  // cifs
    case 0xFE534D42:  // smb3
    case 0x00C36400:  // ceph
      traits.network = true;
      break;
    case V9FS_MAGIC:
      traits.network = true;
      traits.page_cache_reliable = mount && plan9_caches(mount->super_options);
      break;
    case FUSE_SUPER_MAGIC:  // virtiofs too
      traits.network = true;
      traits.page_cache_reliable = !fuse_bypasses_page_cache(fd);
      break;
    case 0x2FC12FC1:  // zfs: read(2) is served from the ARC
      traits.page_cache_reliable = false;
      break;
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case HUGETLBFS_MAGIC:
      traits.memory_backed = true;
      break;
    default:
      break;
  }
  return traits;
}

}  // namespace andiron::os
