// SPDX-License-Identifier: MIT
#include "agent/os/device.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "agent/base/units.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {

Result<DeviceTraits> device_traits(int fd, const std::string& sys_root, const std::string&) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return make_system_error(errno, "fstat");
  const std::string number =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  DeviceTraits traits;
  traits.lane = number;
  traits.read_ahead =
      read_number(sys_root + "/class/bdi/" + number + "/read_ahead_kb").value_or(0) * kKiB;
  return traits;
}

bool in_standby(const DeviceTraits&, const std::string&) { return false; }

}  // namespace andiron::os
