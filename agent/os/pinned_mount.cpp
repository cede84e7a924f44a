// SPDX-License-Identifier: MIT
#include "agent/os/pinned_mount.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "agent/os/mounts.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

constexpr unsigned kFaceAttributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
/// What a folder listing of mounts shows, and what tells ours from another tmpfs.
constexpr const char* kSource = "andiron";
/// "deny" there overrides every mount's own wish.
constexpr const char* kShmemEnabled = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// A tmpfs of ours that is mounted at the path: its st_dev. nullopt: nothing is.
Result<std::optional<dev_t>> mounted_at(const std::string& path) {
  struct statx about {};
  const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  if (::statx(AT_FDCWD, path.c_str(), flags, STATX_TYPE, &about) != 0) {
    return make_system_error(errno, path);
  }
  if (!S_ISDIR(about.stx_mode)) return make_error(Errc::unavailable, path + " is no folder");
  if ((about.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0) return std::nullopt;
  struct statfs kind {};
  if (::statfs(path.c_str(), &kind) != 0) return make_system_error(errno, path);
  if (kind.f_type != TMPFS_MAGIC) {
    return make_error(Errc::unavailable, path + " has something mounted that is not Andiron's");
  }
  return makedev(about.stx_dev_major, about.stx_dev_minor);
}

Result<void> attach(const UniqueFd& mount, const std::string& path) {
  if (::move_mount(mount.get(), "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return make_system_error(errno, "mount at " + path);
  }
  return {};
}

/// Another mount of the file system that is mounted at the path.
Result<UniqueFd> clone_of(const std::string& path, std::uint64_t set, std::uint64_t clear) {
  UniqueFd clone(::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!clone) return make_system_error(errno, "open_tree " + path);
  mount_attr attributes{};
  attributes.attr_set = set;
  attributes.attr_clr = clear;
  if (::mount_setattr(clone.get(), "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0) {
    return make_system_error(errno, "mount_setattr " + path);
  }
  return clone;
}

Result<UniqueFd> new_tmpfs(std::uint64_t size, PinnedMount& mount) {
  const UniqueFd context(::fsopen("tmpfs", FSOPEN_CLOEXEC));
  if (!context) return make_system_error(errno, "fsopen tmpfs");
  const auto set = [&](const char* key, const char* value) {
    return ::fsconfig(context.get(), FSCONFIG_SET_STRING, key, value, 0) == 0;
  };
  const std::string bytes = std::to_string(size);
  if (!set("source", kSource) || !set("mode", "0755") || !set("size", bytes.c_str())) {
    return make_system_error(errno, "fsconfig tmpfs");
  }
  mount.huge = set("huge", "within_size");
  mount.noswap = ::fsconfig(context.get(), FSCONFIG_SET_FLAG, "noswap", nullptr, 0) == 0;
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return make_system_error(errno, "make a tmpfs");
  }
  UniqueFd made(::fsmount(context.get(), FSMOUNT_CLOEXEC, kFaceAttributes));
  if (!made) return make_system_error(errno, "fsmount tmpfs");
  return made;
}

/// Says what copies do without there.
void note_what_is_missing(PinnedMount& mount) {
  const auto machine_wide = read_word(kShmemEnabled);
  if (mount.huge && machine_wide && machine_wide->find("[deny]") != std::string::npos) {
    mount.huge = false;  // the mount asks for them in vain
    mount.notes.push_back(fmt::format("no huge pages: {} says deny", kShmemEnabled));
  } else if (!mount.huge) {
    mount.notes.emplace_back(mount.made ? "no huge pages: this kernel has none for tmpfs"
                                        : "no huge pages: it was mounted without huge=within_size");
  }
  if (!mount.noswap) {
    mount.notes.emplace_back(mount.made
                                 ? "tmpfs knows no noswap (Linux 6.4); mlock alone keeps it in "
                                   "memory"
                                 : "it was mounted without noswap; mlock alone keeps it in memory");
  }
}

/// The options that the kernel shows of the mount at the path.
std::string options_at(const std::string& path) {
  const auto mounts = read_mounts();
  const Mount* found = mounts ? mount_at(path, *mounts) : nullptr;
  return found == nullptr ? std::string() : "," + found->super_options + ",";
}

/// Best effort: an agent without CAP_SYS_ADMIN keeps the bound that whoever made it gave it.
void resize(const std::string& path, std::uint64_t size) {
  const UniqueFd context(::fspick(AT_FDCWD, path.c_str(), FSPICK_CLOEXEC));
  if (!context) return;
  const std::string bytes = std::to_string(size);
  if (::fsconfig(context.get(), FSCONFIG_SET_STRING, "size", bytes.c_str(), 0) != 0) return;
  // Refused where more is in use than that; the ledger is what counts.
  ::fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0);
}

Result<void> make_missing(const PinnedPlaces& places, std::optional<dev_t> writable,
                          std::optional<dev_t> readable, std::uint64_t size, PinnedMount& mount) {
  if (!writable && !readable) {
    mount.made = true;
    const UniqueFd made = TRY(new_tmpfs(size, mount));
    TRY(attach(made, places.writable));
    writable = 0;
  }
  if (!writable) {
    const UniqueFd face = TRY(clone_of(places.readable, kFaceAttributes, MOUNT_ATTR_RDONLY));
    TRY(attach(face, places.writable));
  }
  if (!readable) {
    const UniqueFd face = TRY(clone_of(places.writable, kFaceAttributes | MOUNT_ATTR_RDONLY, 0));
    TRY(attach(face, places.readable));
  }
  return {};
}

}  // namespace

Result<PinnedMount> open_pinned_mount(const PinnedPlaces& places, std::uint64_t size) {
  const auto writable = TRY(mounted_at(places.writable));
  const auto readable = TRY(mounted_at(places.readable));
  if (writable && readable && *writable != *readable) {
    return make_error(Errc::unavailable,
                      places.writable + " and " + places.readable + " are two file systems");
  }
  PinnedMount mount;
  TRY(make_missing(places, writable, readable, size, mount));
  mount.root =
      UniqueFd(::open(places.writable.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!mount.root) return make_system_error(errno, places.writable);
  if (!mount.made) {
    resize(places.writable, size);
    const std::string options = options_at(places.writable);
    mount.huge = options.find(",huge=") != std::string::npos &&
                 options.find(",huge=never,") == std::string::npos;
    mount.noswap = options.find(",noswap,") != std::string::npos;
  }
  note_what_is_missing(mount);
  return mount;
}

bool is_mounted(const std::string& path) {
  const auto mounted = mounted_at(path);
  return mounted && mounted->has_value();
}

Result<void> remove_pinned_mount(const PinnedPlaces& places) {
  for (const std::string& path : {places.readable, places.writable}) {
    const auto mounted = mounted_at(path);
    if (!mounted && mounted.error().code == std::errc::no_such_file_or_directory) continue;
    if (!mounted) return mounted.error();
    // Lazily: who has a copy open keeps it until he closes it.
    if (*mounted && ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
      return make_system_error(errno, "unmount " + path);
    }
  }
  return {};
}

}  // namespace andiron::os
