// SPDX-License-Identifier: MIT
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace andiron {

/// An IPv4 or IPv6 address. IPv4 that is mapped into IPv6 ("::ffff:10.0.0.1") is that IPv4 address,
/// so that one machine has one name. Thread: any. Never blocks.
class IpAddress {
 public:
  /// 0.0.0.0
  IpAddress() = default;
  /// A numeric address, without brackets, port or scope; no name is looked up.
  static std::optional<IpAddress> parse(std::string_view text);
  /// What accept(2) and getpeername(2) tell; nullopt for another family than IP.
  static std::optional<IpAddress> of(const sockaddr_storage& address);

  bool is_v4() const noexcept;
  bool is_loopback() const noexcept;
  /// The first 64 bits, which one household or one machine has to itself, of an IPv6 address; an
  /// IPv4 address as it is.
  IpAddress network() const noexcept;
  std::string to_string() const;

  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  friend struct Endpoint;
  std::array<std::uint8_t, 16> bytes_{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
};

struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;

  std::string to_string() const;  // "127.0.0.1:9479", "[::1]:9479"
  /// What bind(2) wants; gives its size.
  socklen_t store(sockaddr_storage& out) const noexcept;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

}  // namespace andiron
