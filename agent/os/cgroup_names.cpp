// SPDX-License-Identifier: MIT
#include "agent/os/cgroup_names.hpp"

#include <algorithm>
#include <array>

namespace andiron::os {
namespace {

struct Prefix {
  std::string_view text;
  std::string_view runtime;
};

constexpr std::array<Prefix, 4> kScopes{{{"docker-", "docker"},
                                         {"libpod-", "podman"},
                                         {"crio-", "cri-o"},
                                         {"cri-containerd-", "containerd"}}};

/// nullopt where it does not end so.
std::optional<std::string_view> without_end(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return std::nullopt;
  return name.substr(0, name.size() - end.size());
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// systemd writes "my-box" as "my\x2dbox" in the names of units.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text.substr(i).starts_with("\\x") && i + 3 < text.size() &&
                         digit(text[i + 2]) >= 0 && digit(text[i + 3]) >= 0;
    if (!escaped) {
      plain.push_back(text[i]);
      continue;
    }
    plain.push_back(static_cast<char>(digit(text[i + 2]) * 16 + digit(text[i + 3])));
    i += 3;
  }
  return plain;
}

std::optional<CgroupOwner> named(std::string_view runtime, std::string_view name) {
  if (!is_container_word(name)) return std::nullopt;
  return CgroupOwner{std::string(runtime), "", std::string(name)};
}

}  // namespace

bool is_container_word(std::string_view text) noexcept {
  constexpr std::string_view kMarks = "_.:@-";
  return !text.empty() && text.size() <= kMaxContainerWord &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  kMarks.find(c) != std::string_view::npos;
         });
}

bool is_container_id(std::string_view text) noexcept {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

std::optional<CgroupOwner> owner_of_cgroup(std::string_view parent, std::string_view name) {
  const auto scope = without_end(name, ".scope");
  for (const Prefix& prefix : kScopes) {
    // systemd's driver makes scopes, the plain driver folders: "docker/ID",
    // "libpod_parent/libpod-ID".
    const std::string_view whole = scope.value_or(name);
    if (!whole.starts_with(prefix.text)) continue;
    const std::string_view id = whole.substr(prefix.text.size());
    if (!is_container_id(id)) return std::nullopt;  // "libpod-conmon-ID"
    return CgroupOwner{std::string(prefix.runtime), std::string(id), ""};
  }
  if (is_container_id(name)) {
    return CgroupOwner{parent == "docker" ? "docker" : "oci", std::string(name), ""};
  }
  constexpr std::string_view kLxc = "lxc.payload.";
  if (name.starts_with(kLxc)) return named("lxc", name.substr(kLxc.size()));
  if (parent == "lxc") return named("lxc", name);
  constexpr std::string_view kMachine = "machine-";
  if (scope && scope->starts_with(kMachine)) {
    return named("machine", unescape(scope->substr(kMachine.size())));
  }
  if (const auto service = without_end(name, ".service")) {
    // The unit that runs a machine keeps it in its own cgroup, not in a scope.
    constexpr std::string_view kNspawn = "systemd-nspawn@";
    if (service->starts_with(kNspawn)) {
      return named("machine", unescape(service->substr(kNspawn.size())));
    }
    return named("systemd", unescape(*service));
  }
  return std::nullopt;
}

}  // namespace andiron::os
