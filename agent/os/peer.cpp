// SPDX-License-Identifier: MIT
#include "agent/os/peer.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace andiron::os {

Result<Peer> peer_of(int socket_fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return make_system_error(errno, "SO_PEERCRED");
  }
  return Peer{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace andiron::os
