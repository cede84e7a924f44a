// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace andiron::os {

struct Mount {
  std::uint64_t id = 0;
  std::string device;       // "8:1": st_dev of the mount as mountinfo prints it
  std::string root;         // of the file system, for bind mounts and subvolumes
  std::string mount_point;  // octal escapes decoded
  std::string type;
  std::string source;
  std::string super_options;
};

/// /proc/self/mountinfo, in its order. Lines that cannot be read are skipped.
Result<std::vector<Mount>> read_mounts(const std::string& proc_root = "/proc");
std::vector<Mount> parse_mountinfo(std::string_view text);

/// The mount that a path lies on, going by its text: the deepest one, and of those on one point the
/// last. Symlinks are not followed, and no file system is asked. nullptr when there is none.
const Mount* mount_at(std::string_view path, const std::vector<Mount>& mounts);

/// Whether what serves the file system may go away and keep its callers in the kernel: the network
/// ones, and all that is served by a process (fuse).
bool is_network_type(std::string_view type);

}  // namespace andiron::os
