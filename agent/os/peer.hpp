// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include "agent/base/result.hpp"

namespace andiron::os {

/// Who connected to a Unix socket, as the kernel saw it at connect(2).
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
Result<Peer> peer_of(int socket_fd);

}  // namespace andiron::os
