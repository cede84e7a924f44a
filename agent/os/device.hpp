// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "agent/base/result.hpp"

namespace andiron::os {

/// The block device that serves a file: the unit of a storage lane.
struct DeviceTraits {
  /// Names the lane: "8:0" for a disk, "net:0:52" for a network file system's st_dev, "mem" for
  /// tmpfs, "virtual:0:40" where no device below could be found. Partitions, loop devices, dm and
  /// md stay devices of their own; partitions of one disk share that disk's lane.
  std::string lane;
  std::string name;               // "nvme0n1", "sda"; empty for others
  bool rotational = false;        // one sequential reader
  std::uint64_t read_ahead = 0;   // bytes, of the bdi that serves the file; 0 when unknown
  std::uint64_t max_request = 0;  // max_sectors_kb in bytes; 0 when unknown
};

/// Of the device below an open file. btrfs, overlayfs and bind mounts are seen through (by
/// mountinfo and /sys/fs/btrfs); a bdi's read_ahead_kb is read from /sys/class/bdi. `sys_root`
/// and `proc_root` are "/sys" and "/proc" but in tests.
Result<DeviceTraits> device_traits(int fd, const std::string& sys_root = "/sys",
                                   const std::string& proc_root = "/proc");

/// True when the disk says that it sleeps, so that polling must not touch it: runtime PM
/// suspended, or ATA CHECK POWER MODE standby. False when it is awake or cannot be asked.
bool in_standby(const DeviceTraits& device, const std::string& sys_root = "/sys");

}  // namespace andiron::os
