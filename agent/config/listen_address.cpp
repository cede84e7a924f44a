// SPDX-License-Identifier: MIT
#include "agent/config/listen_address.hpp"

#include <arpa/inet.h>

#include <charconv>
#include <cstdint>
#include <string>

namespace andiron::config {
namespace {

bool is_loopback(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

bool good_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port != 0;
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return make_error(Errc::bad_config, "must be ADDRESS:PORT, as in \"127.0.0.1:9479\"");
  }
  if (!good_port(text.substr(colon + 1))) {
    return make_error(Errc::bad_config, "must end in a port from 1 to 65535");
  }
  std::string host(text.substr(0, colon));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    in6_addr address{};
    host = host.substr(1, host.size() - 2);
    if (::inet_pton(AF_INET6, host.c_str(), &address) == 1)
      return ListenAddress{is_loopback(address)};
  } else if (host.find(':') != std::string::npos) {
    return make_error(Errc::bad_config,
                      "needs brackets around an IPv6 address, as in \"[::1]:9479\"");
  } else {
    in_addr address{};
    if (::inet_pton(AF_INET, host.c_str(), &address) == 1) {
      return ListenAddress{(ntohl(address.s_addr) >> 24) == 127};
    }
  }
  return make_error(Errc::bad_config,
                    "must be a numeric address and a port, as in \"127.0.0.1:9479\"");
}

}  // namespace andiron::config
