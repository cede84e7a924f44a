// SPDX-License-Identifier: MIT
#include "agent/config/listen_address.hpp"

#include <charconv>
#include <cstdint>
#include <optional>

namespace andiron::config {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) return {};
  return port;
}

}  // namespace

Result<Endpoint> parse_listen_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return make_error(Errc::bad_config, "must be ADDRESS:PORT, as in \"127.0.0.1:9479\"");
  }
  const auto port = parse_port(text.substr(colon + 1));
  if (!port) return make_error(Errc::bad_config, "must end in a port from 1 to 65535");
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (!brackets && host.find(':') != std::string_view::npos) {
    return make_error(Errc::bad_config,
                      "needs brackets around an IPv6 address, as in \"[::1]:9479\"");
  }
  if (brackets) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::parse(host);
  // Brackets are for IPv6: "[127.0.0.1]" is nothing that a URL may have.
  if (!address || brackets != (host.find(':') != std::string_view::npos)) {
    return make_error(Errc::bad_config,
                      "must be a numeric address and a port, as in \"127.0.0.1:9479\"");
  }
  return Endpoint{*address, *port};
}

}  // namespace andiron::config
