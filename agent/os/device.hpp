// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/os/mounts.hpp"

namespace andiron::os {

/// The block device that serves a file: the unit of a storage lane.
struct DeviceTraits {
  /// Names the lane: "8:0" for a disk, "net:0:52" for a network file system's st_dev, "mem" for
  /// tmpfs, "virtual:0:40" where no device below could be found. Loop devices, dm and md stay
  /// devices of their own; partitions of one disk share that disk's lane. A btrfs of several
  /// devices goes by its first one.
  std::string lane;
  std::string name;               // "nvme0n1", "sda"; empty for others
  bool rotational = false;        // one sequential reader
  std::uint64_t read_ahead = 0;   // bytes, of the bdi that serves the file; 0 when unknown
  std::uint64_t max_request = 0;  // max_sectors_kb in bytes; 0 when unknown
};

/// Of the device below an open file. btrfs, overlayfs and bind mounts are seen through (by
/// mountinfo and /sys/fs/btrfs); a bdi's read_ahead_kb is read from /sys/class/bdi. `sys_root`
/// and `proc_root` are "/sys" and "/proc" but in tests. What is unknown is empty or 0, never an
/// error. Errors: fstat's own. Blocks: not on a disk, but in an overlay it looks for the file in
/// the layers, whose file systems may block as any path does.
Result<DeviceTraits> device_traits(int fd, const std::string& sys_root = "/sys",
                                   const std::string& proc_root = "/proc");

/// What of a file matters to find its device; device_traits() fills it from the fd.
struct FilePlace {
  std::string device;               // st_dev: "0:40"
  std::optional<Mount> mount;       // that the file was opened through, where we see it
  std::optional<std::string> fsid;  // btrfs: its UUID as /sys/fs/btrfs spells it
  std::optional<std::string> path;  // as /proc/self/fd says it
};
DeviceTraits traits_of_place(const FilePlace& place, const std::vector<Mount>& mounts,
                             const std::string& sys_root);

/// True when the disk says that it sleeps, so that polling must not touch it: runtime PM
/// suspended, or ATA CHECK POWER MODE standby. False when it is awake or cannot be asked. Blocks:
/// for a rotational SCSI or ATA disk up to two seconds.
bool in_standby(const DeviceTraits& device, const std::string& sys_root = "/sys");

/// What CHECK POWER MODE answered, from the sense data of an ATA pass-through: the count register
/// of its ATA status return descriptor (SAT-4, 12.2.2.7). nullopt when that is not what it is.
std::optional<std::uint8_t> power_mode_of_sense(const std::uint8_t* sense, std::size_t size);

}  // namespace andiron::os
