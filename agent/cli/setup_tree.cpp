// SPDX-License-Identifier: MIT
#include "agent/cli/setup_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <utility>

#include "agent/base/unique_fd.hpp"
#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const noexcept { ::closedir(dir); }
};

}  // namespace

TreeReader::TreeReader(std::string root, const ScanLimits& limits, const Clock& clock)
    : root_(std::move(root)), limits_(limits), clock_(clock), deadline_(clock.now() + limits.time) {
  while (!root_.empty() && root_.back() == '/')
    root_.pop_back();
  // 4 MiB: a host with thousands of container mounts.
  mounts_ =
      os::parse_mountinfo(read(at("/proc/self/mountinfo"), std::size_t{4} << 20).value_or(""));
}

std::string TreeReader::at(std::string_view path) const { return root_ + std::string(path); }

std::string TreeReader::machine_path(std::string_view path) const {
  if (!root_.empty() && path.substr(0, root_.size()) == root_) path.remove_prefix(root_.size());
  return path.empty() ? "/" : std::string(path);
}

bool TreeReader::out_of_time() {
  if (clock_.now() < deadline_) return false;
  cut_short_.insert(fmt::format("Stopped looking after {} s; there may be more than is shown.",
                                limits_.time.count() / 1000));
  return true;
}

void TreeReader::note_cut_short(std::string sentence) { cut_short_.insert(std::move(sentence)); }

std::vector<TreeReader::Entry> TreeReader::list(const std::string& path) {
  std::vector<Entry> entries;
  if (!answers(path)) return entries;
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(path.c_str()));
  if (dir == nullptr) {
    if ((errno == EACCES || errno == EPERM) && unreadable_.size() < 64) unreadable_.insert(path);
    return entries;
  }
  while (const dirent* found = ::readdir(dir.get())) {
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    if (entries.size() >= limits_.entries) {
      note_cut_short(fmt::format("Looked at the first {} entries of {} only.", limits_.entries,
                                 escape_text(path)));
      break;
    }
    Entry entry{std::string(name), found->d_type == DT_DIR, found->d_type == DT_LNK};
    if (found->d_type == DT_UNKNOWN) {
      struct stat info {};
      if (::fstatat(::dirfd(dir.get()), found->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      entry.folder = S_ISDIR(info.st_mode);
      entry.symlink = S_ISLNK(info.st_mode);
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

std::optional<std::string> TreeReader::read(const std::string& path, std::size_t most) {
  // O_NONBLOCK: a FIFO in the place of a file must not hang us.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  std::string content;
  std::array<char, 16384> block;
  while (true) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return content;
    if (content.size() + static_cast<std::size_t>(got) > most) return std::nullopt;
    content.append(block.data(), static_cast<std::size_t>(got));
  }
}

std::optional<std::string> TreeReader::read_link(const std::string& path) const {
  std::array<char, PATH_MAX> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= target.size()) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(length));
}

bool TreeReader::is_folder(const std::string& path) {
  struct stat info {};
  return answers(path) && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void TreeReader::walk(
    const std::string& top,
    const std::function<bool(const std::string&, const std::vector<Entry>&)>& visit) {
  std::size_t seen = 0;
  std::vector<std::pair<std::string, unsigned>> queue{{top, 0}};
  for (std::size_t next = 0; next < queue.size(); ++next) {  // In breadth: near folders first.
    if (out_of_time()) return;
    const auto [folder, depth] = queue[next];
    const std::vector<Entry> entries = list(folder);
    seen += entries.size();
    if (!visit(folder, entries) || depth >= limits_.depth) continue;
    if (seen >= limits_.entries) {
      note_cut_short(fmt::format("{} is large: looked at {} entries of it only.", escape_text(top),
                                 limits_.entries));
      return;
    }
    for (const Entry& entry : entries) {
      if (entry.folder) queue.emplace_back(folder + "/" + entry.name, depth + 1);
    }
  }
}

const os::Mount* TreeReader::mount_of(std::string_view path) const {
  const std::string own = machine_path(path);
  const os::Mount* best = nullptr;
  for (const os::Mount& mount : mounts_) {
    const std::string& point = mount.mount_point;
    const bool below = point == "/" || own == point ||
                       (own.size() > point.size() && own.compare(0, point.size(), point) == 0 &&
                        own[point.size()] == '/');
    // `>=`: of two mounts in one place the later one is on top.
    if (below && (best == nullptr || point.size() >= best->mount_point.size())) best = &mount;
  }
  return best;
}

/// A child asks first: a network file system whose server went away would hold us for good.
bool TreeReader::answers(const std::string& path) {
  const os::Mount* mount = mount_of(path);
  if (mount == nullptr || !is_network_type(mount->type)) return true;
  if (silent_mounts_.contains(mount->mount_point)) return false;
  if (answering_mounts_.contains(mount->mount_point)) return true;
  const pid_t child = ::fork();
  if (child == 0) {
    struct stat info {};
    ::_exit(::stat(at(mount->mount_point).c_str(), &info) == 0 ? 0 : 1);
  }
  if (child < 0) return false;
  const SteadyTime until = clock_.now() + limits_.network_answer;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (clock_.now() >= until) {
      ::kill(child, SIGKILL);  // It ends when the kernel lets go of it; init will reap it.
      silent_mounts_.insert(mount->mount_point);
      note_cut_short(fmt::format("{} ({}) does not answer; it was left out.",
                                 escape_text(mount->mount_point), escape_text(mount->type)));
      return false;
    }
    ::poll(nullptr, 0, 5);
  }
  answering_mounts_.insert(mount->mount_point);
  return true;
}

bool is_network_type(std::string_view type) {
  constexpr std::array<std::string_view, 11> kTypes{"nfs", "nfs4",     "cifs", "smb3",
                                                    "9p",  "virtiofs", "ceph", "glusterfs",
                                                    "afs", "lustre",   "fuse"};
  // "fuse.sshfs" and the like; "fuseblk" is a local disk (NTFS).
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end() ||
         type.substr(0, 5) == "fuse.";
}

}  // namespace andiron::cli
