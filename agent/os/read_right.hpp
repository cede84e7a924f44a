// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/os/file.hpp"

namespace andiron::os {

/// Somebody, as file permissions know him.
struct Reader {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups = {};  // supplementary
  pid_t pid = 0;                   // when he connected
};

/// Who connected to a Unix socket, as the kernel saw it at connect(2) (SO_PEERCRED, SO_PEERGROUPS):
/// ids of other user namespaces are there as this one sees them.
Result<Reader> reader_of(int socket_fd);

struct FileToRead {
  std::string path;
  FileIdentity identity;  // that it has to have
};

/// May he open all of these to read? A child process with his ids and none of our privileges opens
/// them, so that permissions, ACLs and the folders above count as they do for him; for root the
/// caller tries itself. Wants CAP_SETUID and CAP_SETGID. Errors: permission_denied;
/// source_not_found; stale where another file lies at a path; timeout when that takes longer than
/// `patience`; unavailable where no such child can be made. Blocks: up to `patience`; not on the
/// control loop.
Result<void> check_may_read(const Reader& who, const std::vector<FileToRead>& files,
                            std::chrono::milliseconds patience);

}  // namespace andiron::os
