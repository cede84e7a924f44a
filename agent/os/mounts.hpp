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

}  // namespace andiron::os
