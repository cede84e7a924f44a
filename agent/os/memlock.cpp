// SPDX-License-Identifier: MIT
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "agent/os/memory.hpp"

namespace andiron::os {
namespace {

bool has_effective_capability(unsigned capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data.at(capability / 32).effective & (1U << (capability % 32))) != 0;
}

/// mlock(2) asks for CAP_IPC_LOCK in the first user namespace, whose inode in nsfs is fixed
/// (PROC_USER_INIT_INO, include/linux/proc_ns.h). A rootless container has it only in its own.
bool in_first_user_namespace() {
  constexpr ino_t kFirstUserNamespace = 0xEFFFFFFD;
  struct stat status {};
  return ::stat("/proc/self/ns/user", &status) != 0 || status.st_ino == kFirstUserNamespace;
}

}  // namespace

std::optional<std::uint64_t> memlock_limit() {
  if (has_effective_capability(CAP_IPC_LOCK) && in_first_user_namespace()) return std::nullopt;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace andiron::os
