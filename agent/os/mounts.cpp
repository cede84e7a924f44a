// SPDX-License-Identifier: MIT
#include "agent/os/mounts.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

/// A host with many containers has some thousand mounts of some hundred bytes (an overlay's
/// options name every layer).
constexpr std::size_t kMountinfoLimit = std::size_t{64} << 20;

bool octal(char c) { return c >= '0' && c <= '7'; }

/// "\040" is a space: the kernel escapes space, tab, newline and backslash in mountinfo.
std::string decode(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) &&
        octal(text[i + 3])) {
      const int value = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      result += static_cast<char>(value);
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// proc(5): id, parent, device, root, mount point, options, optional fields up to "-", type,
/// source, super options.
std::optional<Mount> parse_line(std::string_view line) {
  const std::vector<std::string_view> parts = split(line, ' ');
  if (parts.size() < 10) return std::nullopt;
  const auto dash = std::find(parts.begin() + 6, parts.end(), "-");
  if (parts.end() - dash < 4) return std::nullopt;
  const std::optional<std::uint64_t> id = parse_number(parts[0]);
  if (!id) return std::nullopt;
  return Mount{*id,
               std::string(parts[2]),
               decode(parts[3]),
               decode(parts[4]),
               decode(*(dash + 1)),
               decode(*(dash + 2)),
               std::string(*(dash + 3))};
}

}  // namespace

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(text, '\n')) {
    if (std::optional<Mount> mount = parse_line(line)) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

Result<std::vector<Mount>> read_mounts(const std::string& proc_root) {
  const std::string text = TRY(read_text(proc_root + "/self/mountinfo", kMountinfoLimit));
  return parse_mountinfo(text);
}

const Mount* mount_at(std::string_view path, const std::vector<Mount>& mounts) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    const std::string& point = mount.mount_point;
    const bool above = point == "/" || path == point ||
                       (path.starts_with(point) && path.substr(point.size()).starts_with('/'));
    if (above && (best == nullptr || point.size() >= best->mount_point.size())) best = &mount;
  }
  return best;
}

bool is_network_type(std::string_view type) {
  constexpr std::array<std::string_view, 8> kTypes{"nfs",  "nfs4", "cifs", "smb3",
                                                   "ceph", "9p",   "afs",  "virtiofs"};
  return type.starts_with("fuse") || std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

}  // namespace andiron::os
