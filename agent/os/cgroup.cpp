// SPDX-License-Identifier: MIT
#include "agent/os/cgroup.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "agent/base/unique_fd.hpp"
#include "agent/base/units.hpp"
#include "agent/os/mounts.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

namespace fs = std::filesystem;

/// The slice that the units put the agent in: nobody else is in it.
constexpr std::string_view kOwnSlice = "andiron.slice";
/// 8 KiB of a 32 MiB model, a page in 16 MiB of one of 64 GiB: some milliseconds.
constexpr std::uint64_t kSamples = 4096;
/// A busy server has hundreds.
constexpr std::size_t kMaxCgroups = 20000;
/// Bits of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kFrame = (std::uint64_t{1} << 55) - 1;

bool exists(const std::string& path) { return read_text(path).has_value(); }

/// The path below the mount. /proc/self/cgroup counts from the root of the cgroup namespace, and a
/// container without one of its own sees a bind of its folder: mountinfo's root is then a prefix.
/// That table may be long, and is read only where the path is not simply there.
std::string below_mount(const std::string& path, const std::string& base,
                        const std::string& proc_root) {
  if (path == "/") return "";
  // Outside of our namespace's root ("/../x"): what is mounted is all that we see.
  if (path.find("/..") != std::string::npos) return "";
  std::error_code error;
  if (fs::exists(base + path, error)) return path;
  for (const Mount& mount : read_mounts(proc_root).value_or(std::vector<Mount>{})) {
    if (mount.mount_point != base || mount.root == "/") continue;
    if (path.starts_with(mount.root + "/")) return path.substr(mount.root.size());
  }
  return "";
}

/// "max" is more than any number.
std::optional<std::uint64_t> read_amount(const std::string& path) {
  const std::optional<std::string> word = read_word(path);
  if (!word) return std::nullopt;
  return *word == "max" ? UINT64_MAX : parse_number(*word);
}

Result<void> write_amount(const std::string& path, std::uint64_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return make_system_error(errno, path);
  const std::string text = std::to_string(bytes);
  if (::write(fd.get(), text.data(), text.size()) < 0) return make_system_error(errno, path);
  return {};
}

/// One number of 8 bytes of a file that is a table of them; nullopt where it has none there.
std::optional<std::uint64_t> entry_at(const UniqueFd& table, std::uint64_t index) {
  std::uint64_t value = 0;
  const auto at = static_cast<off_t>(index * sizeof value);
  if (::pread(table.get(), &value, sizeof value, at) != sizeof value) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> inode_of(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return std::nullopt;
  return info.st_ino;
}

/// Calls `see(path below base, inode)` for a cgroup and all below it.
template <class See>
void walk(const std::string& base, const std::string& path, See see) {
  if (const auto inode = inode_of(base + path)) see(path, *inode);
  std::error_code error;
  std::size_t seen = 0;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto it = fs::recursive_directory_iterator(base + path, options, error);
       !error && it != fs::recursive_directory_iterator() && ++seen < 64 * kMaxCgroups;
       it.increment(error)) {
    std::error_code gone;
    if (!it->is_directory(gone)) continue;
    const std::string folder = it->path().string();
    if (const auto inode = inode_of(folder)) see(folder.substr(base.size()), *inode);
  }
}

/// Bytes by the inode of the cgroup that they are charged to.
Result<std::map<std::uint64_t, std::uint64_t>> sample_charges(const MappedRegion& mapping,
                                                              const std::string& proc_root) {
  const UniqueFd pages(::open((proc_root + "/self/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd owners(::open((proc_root + "/kpagecgroup").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pages || !owners) {
    return make_error(Errc::unavailable, "this kernel does not tell whom pages are charged to");
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t all = (mapping.size() + page - 1) / page;
  const std::uint64_t step = std::max<std::uint64_t>(1, all / kSamples);
  const std::uint64_t first = reinterpret_cast<std::uintptr_t>(mapping.data()) / page;
  std::map<std::uint64_t, std::uint64_t> bytes;
  for (std::uint64_t i = 0; i < all; i += step) {
    const std::optional<std::uint64_t> entry = entry_at(pages, first + i);
    if (!entry || (*entry & kPresent) == 0) continue;
    const std::uint64_t frame = *entry & kFrame;
    // The kernel shows a frame of 0 to those who may not know it.
    if (frame == 0) return make_error(Errc::unavailable, "it takes CAP_SYS_ADMIN to see");
    if (const auto owner = entry_at(owners, frame)) {
      bytes[*owner] += std::min(step, all - i) * page;
    }
  }
  return bytes;
}

}  // namespace

std::vector<MemoryHierarchy> memory_hierarchies(const std::string& proc_root,
                                                const std::string& cgroup_root) {
  std::vector<MemoryHierarchy> found;
  const std::string table = read_word(proc_root + "/self/cgroup").value_or("");
  for (const std::string_view line : split(table, '\n')) {
    // "4:memory:/docker/ab12" and, for v2, "0::/system.slice/andiron.service"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    std::string base;
    bool v2 = false;
    if (line.starts_with("0::")) {
      v2 = true;
      base = exists(cgroup_root + "/cgroup.controllers") ? cgroup_root : cgroup_root + "/unified";
    } else {
      const std::vector<std::string_view> names = split(controllers, ',');
      if (std::find(names.begin(), names.end(), "memory") == names.end()) continue;
      base = cgroup_root + "/memory";
    }
    found.push_back({base, below_mount(path, base, proc_root), v2});
  }
  return found;
}

Result<MemoryProtection> MemoryProtection::find(const std::string& proc_root,
                                                const std::string& cgroup_root) {
  const std::vector<MemoryHierarchy> all = memory_hierarchies(proc_root, cgroup_root);
  const auto v2 = std::find_if(all.begin(), all.end(), [](const auto& one) { return one.v2; });
  if (v2 == all.end()) return make_error(Errc::unavailable, "there is no cgroup v2 here");
  std::vector<Group> groups;
  std::string path = v2->path;
  for (;;) {
    const std::string folder = v2->base + path;
    // The root has no such file, nor has a cgroup without the memory controller.
    if (read_amount(folder + "/memory.low")) {
      const bool slice = path.ends_with("/" + std::string(kOwnSlice));
      groups.push_back({path.empty() ? "/" : path, folder, groups.empty() || slice});
    } else if (groups.empty()) {
      return make_error(Errc::unavailable,
                        fmt::format("cgroup {} has no memory.low: it is the root, or without the "
                                    "memory controller",
                                    path.empty() ? "/" : path));
    }
    if (path.empty()) break;
    path.resize(std::min(path.rfind('/'), path.size()));
  }
  const std::string own = groups.front().folder + "/memory.low";
  if (::access(own.c_str(), W_OK) != 0) {
    return make_error(Errc::unavailable, own + " cannot be written");
  }
  return MemoryProtection(v2->base, proc_root, std::move(groups));
}

Result<std::optional<std::string>> MemoryProtection::keep(std::uint64_t low,
                                                          std::uint64_t min) const {
  // The kernel counts whole pages, and shows them so.
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::optional<std::string> weaker;
  const std::pair<const char*, std::uint64_t> wanted[] = {{"memory.low", low / page * page},
                                                          {"memory.min", min / page * page}};
  for (const auto& [file, bytes] : wanted) {
    for (const Group& group : groups_) {
      const std::string path = fmt::format("{}/{}", group.folder, file);
      const std::uint64_t now = read_amount(path).value_or(0);
      if (now == bytes) continue;
      if (group.ours) {
        TRY(write_amount(path, bytes));
      } else if (now < bytes) {
        weaker = fmt::format("{} of {} is {}, so that no more is kept below it", file, group.path,
                             format_bytes(now));
      }
    }
  }
  return weaker;
}

const MemoryProtection::Group& MemoryProtection::topmost_ours() const {
  return *std::find_if(groups_.rbegin(), groups_.rend(),
                       [](const Group& group) { return group.ours; });
}

Result<std::vector<Charge>> MemoryProtection::charged_elsewhere(const MappedRegion& mapping) const {
  std::map<std::uint64_t, std::uint64_t> bytes = TRY(sample_charges(mapping, proc_root_));
  const std::string top = topmost_ours().folder.substr(base_.size());
  walk(base_, top, [&](const std::string&, std::uint64_t inode) { bytes.erase(inode); });
  std::vector<Charge> elsewhere;
  if (bytes.empty()) return elsewhere;
  walk(base_, "", [&](const std::string& path, std::uint64_t inode) {
    const auto found = bytes.find(inode);
    if (found == bytes.end()) return;
    elsewhere.push_back({path.empty() ? "/" : path, found->second});
    bytes.erase(found);
  });
  std::uint64_t gone = 0;
  for (const auto& [inode, count] : bytes)
    gone += count;
  if (gone > 0) elsewhere.push_back({"", gone});
  std::sort(elsewhere.begin(), elsewhere.end(),
            [](const Charge& a, const Charge& b) { return a.bytes > b.bytes; });
  return elsewhere;
}

}  // namespace andiron::os
