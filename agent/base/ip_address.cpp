// SPDX-License-Identifier: MIT
#include "agent/base/ip_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace andiron {
namespace {

constexpr std::size_t kV4Offset = 12;

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  // No address is as long; inet_pton wants a C string, and would end at a NUL.
  if (text.size() >= INET6_ADDRSTRLEN || text.find('\0') != std::string_view::npos) return {};
  const std::string copy(text);
  IpAddress found;
  if (::inet_pton(AF_INET, copy.c_str(), found.bytes_.data() + kV4Offset) == 1) return found;
  if (::inet_pton(AF_INET6, copy.c_str(), found.bytes_.data()) == 1) return found;
  return {};
}

std::optional<IpAddress> IpAddress::of(const sockaddr_storage& address) {
  IpAddress found;
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    std::memcpy(found.bytes_.data() + kV4Offset, &v4.sin_addr, sizeof v4.sin_addr);
    return found;
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    std::memcpy(found.bytes_.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    return found;
  }
  return {};
}

bool IpAddress::is_v4() const noexcept {
  constexpr std::array<std::uint8_t, kV4Offset> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), bytes_.begin());
}

bool IpAddress::is_loopback() const noexcept {
  if (is_v4()) return bytes_[kV4Offset] == 127;
  constexpr std::array<std::uint8_t, 16> kLoopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return bytes_ == kLoopback;
}

IpAddress IpAddress::network() const noexcept {
  IpAddress result = *this;
  if (!is_v4()) std::fill(result.bytes_.begin() + 8, result.bytes_.end(), std::uint8_t{0});
  return result;
}

std::string IpAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_v4()) {
    ::inet_ntop(AF_INET, bytes_.data() + kV4Offset, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, bytes_.data(), text, sizeof text);
  }
  return text;
}

std::string Endpoint::to_string() const {
  const std::string host = address.to_string();
  return (address.is_v4() ? host : "[" + host + "]") + ":" + std::to_string(port);
}

socklen_t Endpoint::store(sockaddr_storage& out) const noexcept {
  out = {};
  if (address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes_.data() + kV4Offset, sizeof v4.sin_addr);
    std::memcpy(&out, &v4, sizeof v4);
    return sizeof v4;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, address.bytes_.data(), sizeof v6.sin6_addr);
  std::memcpy(&out, &v6, sizeof v6);
  return sizeof v6;
}

}  // namespace andiron
