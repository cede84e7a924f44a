// SPDX-License-Identifier: MIT
#include <linux/capability.h>
#include <sys/resource.h>

#include "agent/os/memory.hpp"
#include "agent/os/privilege.hpp"

namespace andiron::os {

std::optional<std::uint64_t> memlock_limit() {
  // mlock(2) wants the capability in the first user namespace (can_do_mlock, mm/mlock.c).
  if (has_effective_capability(CAP_IPC_LOCK) && in_first_user_namespace()) return std::nullopt;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace andiron::os
