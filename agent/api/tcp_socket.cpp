// SPDX-License-Identifier: MIT
#include "agent/api/tcp_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace andiron::api {
namespace {

// As many as are served; who connects past that waits.
constexpr int kListenBacklog = 128;

bool set_option(int socket, int level, int name, int value) noexcept {
  return ::setsockopt(socket, level, name, &value, sizeof value) == 0;
}

sockaddr* generic(sockaddr_storage& address) noexcept {
  return reinterpret_cast<sockaddr*>(&address);
}

}  // namespace

Result<UniqueFd> listen_on(const Endpoint& at) {
  sockaddr_storage address{};
  const socklen_t size = at.store(address);
  UniqueFd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!fd) return make_system_error(errno, "TCP socket");
  // Without it, connections that ended lately would keep a restarted agent off its own port.
  if (!set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1))
    return make_system_error(errno, "SO_REUSEADDR");
  // Not what the machine's default may be: the configuration says where it listens.
  if (!at.address.is_v4() && !set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0))
    return make_system_error(errno, "IPV6_V6ONLY");
  if (::bind(fd.get(), generic(address), size) != 0 || ::listen(fd.get(), kListenBacklog) != 0)
    return make_system_error(errno, "listen on " + at.to_string());
  return fd;
}

Result<Endpoint> endpoint_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, generic(address), &size) != 0)
    return make_system_error(errno, "getsockname");
  const auto ip = IpAddress::of(address);
  if (!ip) return make_system_error(EAFNOSUPPORT, "getsockname");
  // The port lies at the same place in both families.
  sockaddr_in v4{};
  std::memcpy(&v4, &address, sizeof v4);
  return Endpoint{*ip, ntohs(v4.sin_port)};
}

Result<IpAddress> take_tcp_client(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket, generic(address), &size) != 0)
    return make_system_error(errno, "getpeername");
  const auto ip = IpAddress::of(address);
  if (!ip) return make_system_error(EAFNOSUPPORT, "getpeername");
  // A quiet stream sends nothing that would find out: after 30 s the kernel asks, three times.
  const struct {
    int level, name, value;
  } options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                 {IPPROTO_TCP, TCP_KEEPIDLE, 30},
                 {IPPROTO_TCP, TCP_KEEPINTVL, 10},
                 {IPPROTO_TCP, TCP_KEEPCNT, 3},
                 {IPPROTO_TCP, TCP_NODELAY, 1}};
  for (const auto& [level, name, value] : options) {
    if (!set_option(socket, level, name, value)) return make_system_error(errno, "setsockopt");
  }
  return *ip;
}

}  // namespace andiron::api
