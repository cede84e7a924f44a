// SPDX-License-Identifier: MIT
#include "agent/api/access.hpp"

#include <algorithm>

#include "agent/base/ip_address.hpp"

namespace andiron::api {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool is_port(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Verdict authorise(Door door, std::string_view method, TokenState token) noexcept {
  if (door == Door::control_socket || token == TokenState::right) return Verdict::allow;
  const bool reads = method == "GET" || method == "HEAD";
  if (door == Door::loopback && reads) return Verdict::allow;
  return token == TokenState::none_set ? Verdict::forbid : Verdict::ask_for_token;
}

bool is_loopback_host(std::string_view host) noexcept {
  const bool brackets = host.starts_with('[');
  const std::size_t name_end = brackets ? host.find(']') : host.find(':');
  if (brackets && name_end == std::string_view::npos) return false;
  const std::size_t rest_at = brackets ? name_end + 1 : std::min(name_end, host.size());
  const std::string_view rest = host.substr(rest_at);
  if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return false;
  const std::string_view name = brackets ? host.substr(1, name_end - 1) : host.substr(0, rest_at);
  if (!brackets && equal_ignoring_case(name, "localhost")) return true;
  const auto address = IpAddress::parse(name);
  return address && address->is_loopback() &&
         brackets == (name.find(':') != std::string_view::npos);
}

bool is_same_origin(std::string_view origin, std::string_view host) noexcept {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) {
      return !host.empty() && equal_ignoring_case(origin.substr(scheme.size()), host);
    }
  }
  return false;  // "null" too: a sandboxed page, or a file
}

std::optional<std::string_view> bearer_of(std::string_view authorization) noexcept {
  constexpr std::string_view kScheme = "bearer ";
  if (!equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  std::string_view token = authorization.substr(kScheme.size());
  token.remove_prefix(std::min(token.find_first_not_of(' '), token.size()));
  return token;
}

}  // namespace andiron::api
