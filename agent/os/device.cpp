// SPDX-License-Identifier: MIT
#include "agent/os/device.hpp"

#include <linux/btrfs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "agent/base/units.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

namespace fs = std::filesystem;

/// An overlay on an overlay on a loop-mounted image: no deeper nesting makes sense, and a mount
/// table that names itself must end somewhere.
constexpr int kDepthLimit = 8;
/// Entries of a folder of /sys that we look through.
constexpr int kEntryLimit = 4096;

std::string device_number(dev_t device) {
  return fmt::format("{}:{}", major(device), minor(device));
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error);
       !error && entry != fs::directory_iterator{} && names.size() < kEntryLimit;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t kilobytes(const std::string& path) {
  const std::uint64_t value = read_number(path).value_or(0);
  return value < kGiB ? value * kKiB : 0;  // more than a terabyte is no size of a request
}

std::uint64_t bdi_read_ahead(const std::string& sys_root, const std::string& name) {
  return kilobytes(sys_root + "/class/bdi/" + name + "/read_ahead_kb");
}

/// The disk that the block device `number` is or is a part of; nullopt when there is none.
std::optional<DeviceTraits> block_device(const std::string& number, const std::string& sys_root) {
  std::error_code error;
  fs::path folder = fs::canonical(sys_root + "/dev/block/" + number, error);
  if (error) return std::nullopt;
  if (fs::exists(folder / "partition", error)) folder = folder.parent_path();
  DeviceTraits traits;
  traits.name = folder.filename().string();
  traits.lane = read_word((folder / "dev").string()).value_or(number);
  const std::string queue = (folder / "queue").string();
  traits.rotational = read_number(queue + "/rotational").value_or(0) == 1;
  traits.max_request = kilobytes(queue + "/max_sectors_kb");
  traits.read_ahead = bdi_read_ahead(sys_root, traits.lane);
  if (traits.read_ahead == 0) traits.read_ahead = kilobytes(queue + "/read_ahead_kb");
  return traits;
}

/// By a name below /sys/class/block: "sda1", "loop0", "dm-0".
std::optional<DeviceTraits> block_device_named(const std::string& name,
                                               const std::string& sys_root) {
  const auto number = read_word(sys_root + "/class/block/" + name + "/dev");
  return number ? block_device(*number, sys_root) : std::nullopt;
}

/// By a mount's source: "/dev/sda1", "/dev/mapper/vg-root", or several with ":" between them.
std::optional<DeviceTraits> block_device_of_source(std::string_view source,
                                                   const std::string& sys_root) {
  const std::string_view first = source.substr(0, source.find(':'));
  if (!first.starts_with("/dev/")) return std::nullopt;
  const std::string name(first.substr(first.rfind('/') + 1));
  if (auto traits = block_device_named(name, sys_root)) return traits;
  // The mapper's names are links of udev; the kernel's own are dm-N.
  for (const std::string& entry : entries_of(sys_root + "/class/block")) {
    if (!entry.starts_with("dm-")) continue;
    if (read_word(sys_root + "/class/block/" + entry + "/dm/name") == name) {
      return block_device_named(entry, sys_root);
    }
  }
  return std::nullopt;
}

/// The file system's folder of /sys/fs/btrfs: by UUID, or as the one that holds the source device.
std::optional<std::string> btrfs_folder(const FilePlace& place, const std::string& sys_root) {
  const std::string base = sys_root + "/fs/btrfs/";
  std::error_code error;
  if (place.fsid && fs::exists(base + *place.fsid, error)) return base + *place.fsid;
  if (!place.mount) return std::nullopt;
  const auto source = block_device_of_source(place.mount->source, sys_root);
  const std::string name = place.mount->source.substr(place.mount->source.rfind('/') + 1);
  for (const std::string& entry : entries_of(base)) {
    for (const std::string& device : entries_of(base + entry + "/devices")) {
      if (device == name || (source && device == source->name)) return base + entry;
    }
  }
  return std::nullopt;
}

/// btrfs reads ahead by a bdi of its own, and its st_dev belongs to a subvolume, not to a device.
std::optional<DeviceTraits> btrfs_device(const FilePlace& place, const std::string& sys_root) {
  const std::optional<std::string> folder = btrfs_folder(place, sys_root);
  if (!folder) return std::nullopt;
  std::optional<DeviceTraits> traits;
  for (const std::string& name : entries_of(*folder + "/devices")) {
    const std::optional<DeviceTraits> device = block_device_named(name, sys_root);
    if (!device) continue;
    if (!traits) traits = device;
    traits->rotational = traits->rotational || device->rotational;
    traits->max_request = std::min(traits->max_request, device->max_request);
  }
  if (traits) traits->read_ahead = kilobytes(*folder + "/bdi/read_ahead_kb");
  return traits;
}

/// The value of an overlay's "lowerdir=/a:/b", with "\:" for a colon within a name.
std::vector<std::string> split_layers(std::string_view value) {
  std::vector<std::string> layers(1);
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && i + 1 < value.size()) {
      layers.back() += value[++i];
    } else if (value[i] == ':') {
      // "::" begins the data-only layers, which are layers to us too.
      if (!layers.back().empty()) layers.emplace_back();
    } else {
      layers.back() += value[i];
    }
  }
  if (layers.back().empty()) layers.pop_back();
  return layers;
}

/// The folders of an overlay, the one that hides the others first.
std::vector<std::string> overlay_layers(const Mount& mount) {
  std::vector<std::string> layers;
  for (const std::string_view option : split(mount.super_options, ',')) {
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = option.substr(0, equals);
    if (key == "upperdir") {
      const std::vector<std::string> upper = split_layers(option.substr(equals + 1));
      layers.insert(layers.begin(), upper.begin(), upper.end());
    } else if (key == "lowerdir" || key == "lowerdir+" || key == "datadir+") {
      for (std::string& layer : split_layers(option.substr(equals + 1)))
        layers.push_back(std::move(layer));
    }
  }
  return layers;
}

/// The file below its mount, such as "/models/x.gguf"; nullopt when its path is not known.
std::optional<std::string> path_in_mount(const FilePlace& place) {
  if (!place.path || !place.mount) return std::nullopt;
  std::string path = *place.path;
  if (place.mount->mount_point != "/") {
    if (!path.starts_with(place.mount->mount_point + "/")) return std::nullopt;
    path.erase(0, place.mount->mount_point.size());
  }
  return place.mount->root == "/" ? path : place.mount->root + path;
}

DeviceTraits find(const FilePlace& place, const std::vector<Mount>& mounts,
                  const std::string& sys_root, int depth);

/// An overlay's file is served by the device of the layer that has it. An fd cannot say which that
/// is, but the layers can be looked at; where they do not show the file, the lowest that we see
/// decides: layers mostly lie on one file system.
std::optional<DeviceTraits> overlay_device(const FilePlace& place, const std::vector<Mount>& mounts,
                                           const std::string& sys_root, int depth) {
  const std::optional<std::string> inner = path_in_mount(place);
  std::optional<std::string> layer;
  for (const std::string& candidate : overlay_layers(*place.mount)) {
    if (!candidate.starts_with("/")) continue;  // relative to where the mounter stood
    layer = candidate;
    struct stat status {};
    if (inner && ::lstat((candidate + *inner).c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      break;
    }
  }
  if (!layer) return std::nullopt;
  const Mount* mount = mount_at(*layer, mounts);
  if (mount == nullptr || mount->id == place.mount->id) return std::nullopt;
  FilePlace below;
  below.device = mount->device;
  below.mount = *mount;
  if (inner) below.path = *layer + *inner;
  return find(below, mounts, sys_root, depth + 1);
}

DeviceTraits find(const FilePlace& place, const std::vector<Mount>& mounts,
                  const std::string& sys_root, int depth) {
  DeviceTraits unknown;
  unknown.lane = "virtual:" + place.device;
  unknown.read_ahead = bdi_read_ahead(sys_root, place.device);
  if (depth > kDepthLimit) return unknown;
  if (auto traits = block_device(place.device, sys_root)) return *traits;
  if (!place.mount) return unknown;
  const std::string& type = place.mount->type;
  if (type == "tmpfs" || type == "ramfs" || type == "hugetlbfs" || type == "devtmpfs") {
    return {"mem", "", false, 0, 0};
  }
  if (is_network_type(type)) {
    unknown.lane = "net:" + place.device;
    return unknown;
  }
  std::optional<DeviceTraits> traits;
  if (type == "btrfs") traits = btrfs_device(place, sys_root);
  if (type == "overlay") return overlay_device(place, mounts, sys_root, depth).value_or(unknown);
  if (!traits) traits = block_device_of_source(place.mount->source, sys_root);
  return traits.value_or(unknown);
}

/// The UUID of a btrfs, spelled as in /sys/fs/btrfs.
std::optional<std::string> btrfs_fsid(int fd) {
  struct statfs status {};
  if (::fstatfs(fd, &status) != 0 ||
      static_cast<std::uint32_t>(status.f_type) != BTRFS_SUPER_MAGIC) {
    return std::nullopt;
  }
  btrfs_ioctl_fs_info_args info{};
  if (::ioctl(fd, BTRFS_IOC_FS_INFO, &info) != 0) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < sizeof info.fsid; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned>(info.fsid[i]));
  }
  return text;
}

std::optional<std::uint64_t> mount_id(int fd, const std::string& proc_root) {
  const Result<std::string> text = read_text(fmt::format("{}/self/fdinfo/{}", proc_root, fd));
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n')) {
    if (line.starts_with("mnt_id:")) return parse_number(line.substr(7));
  }
  return std::nullopt;
}

}  // namespace

DeviceTraits traits_of_place(const FilePlace& place, const std::vector<Mount>& mounts,
                             const std::string& sys_root) {
  return find(place, mounts, sys_root, 0);
}

Result<DeviceTraits> device_traits(int fd, const std::string& sys_root,
                                   const std::string& proc_root) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return make_system_error(errno, "fstat");
  const std::vector<Mount> mounts = read_mounts(proc_root).value_or(std::vector<Mount>{});
  FilePlace place;
  place.device = device_number(status.st_dev);
  const std::optional<std::uint64_t> id = mount_id(fd, proc_root);
  for (const Mount& mount : mounts) {
    if (id ? mount.id == *id : mount.device == place.device) place.mount = mount;
  }
  place.fsid = btrfs_fsid(fd);
  std::error_code error;
  const fs::path path = fs::read_symlink(fmt::format("{}/self/fd/{}", proc_root, fd), error);
  if (!error) place.path = path.string();
  // A file system of memory that is not in our mount table (a memfd, a passed fd).
  struct statfs file_system {};
  if (!place.mount && ::fstatfs(fd, &file_system) == 0 &&
      static_cast<std::uint32_t>(file_system.f_type) == TMPFS_MAGIC) {
    return DeviceTraits{"mem", "", false, 0, 0};
  }
  return traits_of_place(place, mounts, sys_root);
}

}  // namespace andiron::os
