// SPDX-License-Identifier: MIT
#include "agent/base/guest_source.hpp"

#include <algorithm>

namespace andiron {

bool is_container_name(std::string_view name) noexcept {
  const auto alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  const auto fits = [&](char c) { return alphanumeric(c) || c == '_' || c == '.' || c == '-'; };
  return !name.empty() && name.size() <= 128 && alphanumeric(name.front()) &&
         std::all_of(name.begin(), name.end(), fits);
}

std::optional<GuestSource> split_guest_source(std::string_view text) noexcept {
  if (!text.starts_with(kGuestPrefix)) return std::nullopt;
  text.remove_prefix(kGuestPrefix.size());
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return std::nullopt;
  const GuestSource source{text.substr(0, colon), text.substr(colon + 1)};
  if (!is_container_name(source.guest)) return std::nullopt;
  return source;
}

std::optional<GuestSource> split_guest_path(std::string_view text) noexcept {
  const auto source = split_guest_source(text);
  return source && source->rest.front() == '/' ? source : std::nullopt;
}

std::string join_guest_source(std::string_view guest, std::string_view rest) {
  std::string text(kGuestPrefix);
  text.append(guest).append(":").append(rest);
  return text;
}

}  // namespace andiron
