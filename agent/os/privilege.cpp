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

bool in_first_user_namespace() {
  // Its inode in nsfs is fixed: PROC_USER_INIT_INO, include/linux/proc_ns.h.
  constexpr ino_t kFirstUserNamespace = 0xEFFFFFFD;
  struct stat status {};
  return ::stat("/proc/self/ns/user", &status) != 0 || status.st_ino == kFirstUserNamespace;
}

}  // namespace andiron::os
