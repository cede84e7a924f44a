// SPDX-License-Identifier: MIT
#include "agent/os/guest_root.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "agent/os/cgroup_names.hpp"
#include "agent/os/cgroup_tree.hpp"
#include "agent/os/privilege.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

/// The guest's cgroups, the outermost first. One that belongs to somebody, another guest among
/// them, is not looked into: names in there are that one's to choose.
std::vector<std::string> cgroups_of(std::string_view guest, const std::string& hierarchy) {
  struct Folder {
    std::string path;
    std::string name;
    int depth = 0;
  };
  std::vector<std::string> found;
  std::deque<Folder> pending;
  pending.push_back({hierarchy, "", 0});
  std::size_t seen = 0;
  while (!pending.empty()) {
    const Folder folder = std::move(pending.front());
    pending.pop_front();
    for (const std::string& name : child_cgroups(folder.path)) {
      if (++seen > kMaxCgroupFolders) return found;
      std::string path = folder.path + "/" + name;
      const auto owner = owner_of_cgroup(folder.name, name);
      if (owner && owner->is_guest() && owner->name == guest) {
        found.push_back(std::move(path));
      } else if (!owner && folder.depth < kMaxCgroupDepth) {
        pending.push_back({std::move(path), name, folder.depth + 1});
      }
    }
  }
  return found;
}

/// The numbers of a process in its pid namespaces, ours first; 1 at the end is an init. Empty where
/// they cannot be read.
std::vector<std::uint64_t> namespaced_pids(const std::string& status_path) {
  std::vector<std::uint64_t> pids;
  const std::string status = read_text(status_path, 64 * 1024).value_or(std::string());
  for (const std::string_view line : split(status, '\n')) {
    constexpr std::string_view kKey = "NSpid:";
    if (!line.starts_with(kKey)) continue;
    for (const std::string_view field : fields(line.substr(kKey.size())))
      pids.push_back(parse_number(field).value_or(0));
  }
  return pids;
}

bool is_listed(pid_t pid, const std::string& group) {
  const auto text = read_text(group + "/cgroup.procs");
  if (!text) return false;
  for (const std::string_view line : split(*text, '\n')) {
    if (parse_number(line) == static_cast<std::uint64_t>(pid)) return true;
  }
  return false;
}

bool same_inode(int fd, const char* path) {
  struct stat a {};
  struct stat b {};
  // What cannot be told apart is not to be taken for a guest's.
  if (::fstat(fd, &a) != 0 || ::stat(path, &b) != 0) return true;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Looks for the process whose root is to be used.
class RootSearch {
 public:
  explicit RootSearch(const GuestPlaces& places)
      : places_(places), own_levels_(namespaced_pids(places.proc_root + "/self/status").size()) {}

  /// True: no better one is to come.
  bool look_at(pid_t pid, const std::string& group);
  UniqueFd take() && { return std::move(root_); }
  bool denied() const noexcept { return denied_; }
  bool outside() const noexcept { return outside_; }

 private:
  const GuestPlaces& places_;
  const std::size_t own_levels_;
  UniqueFd root_;
  bool denied_ = false;
  bool outside_ = false;  // one has not entered the guest
};

bool RootSearch::look_at(pid_t pid, const std::string& group) {
  // A folder of /proc belongs to one process for good: once that has ended, nothing is found in
  // it, whoever got its number. So if it was in the cgroup after the folder was opened, and has a
  // root after that, it was the cgroup's all the while.
  const std::string folder = fmt::format("{}/{}", places_.proc_root, pid);
  const UniqueFd process(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!process || !is_listed(pid, group)) return false;
  UniqueFd root(::openat(process.get(), "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) {
    denied_ = denied_ || errno == EACCES || errno == EPERM;
    return false;
  }
  if (same_inode(root.get(), "/")) {
    outside_ = true;
    return false;
  }
  const std::vector<std::uint64_t> pids =
      namespaced_pids(fmt::format("/proc/self/fd/{}/status", process.get()));
  const bool is_init = pids.size() == own_levels_ + 1 && pids.back() == 1;
  if (!root_ || is_init) root_ = std::move(root);
  return is_init;
}

Result<UniqueFd> open_in(int root, const std::string& path, std::uint64_t flags) {
  // With the magic links of a /proc, which lead anywhere, go all other symlinks.
  struct open_how how = {};
  how.flags = flags | O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS;
  const std::string relative = "." + path;
  constexpr int kTries = 16;
  for (int i = 0;; ++i) {
    const long fd = ::syscall(SYS_openat2, root, relative.c_str(), &how, sizeof how);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    // EAGAIN: something was renamed meanwhile, and the kernel could not prove where it is.
    if (errno != EAGAIN || i == kTries) break;
  }
  if (errno == ENOSYS) {
    return make_error(Errc::unavailable, "files of guests need openat2(2), of Linux 5.6");
  }
  return make_system_error(errno, path);
}

}  // namespace

Result<GuestRoot> GuestRoot::open(std::string_view guest, const GuestPlaces& places) {
  const auto hierarchy = find_process_hierarchy(places.cgroup_root);
  if (!hierarchy) {
    return make_error(Errc::unavailable,
                      fmt::format("guest {} cannot be found: there are no cgroups in {}", guest,
                                  places.cgroup_root));
  }
  RootSearch search(places);
  for (const std::string& group : cgroups_of(guest, hierarchy->path)) {
    const bool found = visit_processes(
        group, [&](pid_t pid, const std::string& folder) { return search.look_at(pid, folder); });
    if (found) break;
  }
  const bool denied = search.denied();
  const bool outside = search.outside();
  UniqueFd root = std::move(search).take();
  if (root) return GuestRoot(std::string(guest), std::move(root));
  if (denied) {
    return make_error(
        Errc::permission_denied,
        fmt::format("the root of guest {} may not be opened: it takes CAP_SYS_PTRACE", guest));
  }
  return make_error(
      Errc::source_not_found,
      fmt::format("guest {} {}", guest,
                  outside ? "is starting, or has no root folder of its own" : "is not running"));
}

Result<UniqueFd> GuestRoot::open_exact(const std::string& path) const {
  return open_in(fd_.get(), path, O_NOFOLLOW);
}

Capability probe_guests(const GuestPlaces& places) {
  using State = Capability::State;
  if (!find_process_hierarchy(places.cgroup_root)) {
    return {"guests", State::off, "there are no cgroups in " + places.cgroup_root,
            "mount cgroup2 there"};
  }
  const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (const auto inside = open_in(root.get(), "/", 0); !inside) {
    return {"guests", State::off, inside.error().message(), "boot a newer kernel"};
  }
  // Asked for, not tried: there may be no guest yet, and other processes prove nothing. Which one
  // of them may be looked into is up to its user and its own capabilities.
  const char* remedy =
      "run the agent as root, and leave its CapabilityBoundingSet= as it is shipped";
  if (!has_effective_capability(CAP_SYS_PTRACE)) {
    return {"guests", State::off, "it takes CAP_SYS_PTRACE to open the root of a guest", remedy};
  }
  if (!has_effective_capability(CAP_DAC_READ_SEARCH) &&
      !has_effective_capability(CAP_DAC_OVERRIDE)) {
    return {"guests", State::degraded,
            "without CAP_DAC_READ_SEARCH only files are seen that everybody may read", remedy};
  }
  return {"guests", State::on, "files in guests are opened through the roots of their processes",
          ""};
}

}  // namespace andiron::os
