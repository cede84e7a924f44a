// SPDX-License-Identifier: MIT
#include "agent/os/privilege.hpp"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace andiron::os {

bool has_effective_capability(unsigned capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  if (capability / 32 >= data.size()) return false;
  return (data[capability / 32].effective & (1U << (capability % 32))) != 0;
}

namespace {

/// The first namespaces have fixed inodes in nsfs: include/linux/proc_ns.h. True, too, where there
/// are no such namespaces.
bool is_first(const char* path, ino_t first) {
  struct stat status {};
  return ::stat(path, &status) != 0 || status.st_ino == first;
}

}  // namespace

bool in_first_user_namespace() {
  return is_first("/proc/self/ns/user", 0xEFFFFFFD);  // PROC_USER_INIT_INO
}

bool in_first_process_namespace() {
  return is_first("/proc/self/ns/pid", 0xEFFFFFFC);  // PROC_PID_INIT_INO
}

}  // namespace andiron::os
