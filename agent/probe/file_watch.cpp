// SPDX-License-Identifier: MIT
#include "agent/probe/file_watch.hpp"

#include <fmt/core.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace andiron::probe {
namespace {

// IN_MODIFY too, and not only IN_CLOSE_WRITE: a writer that keeps its fd open for hours, or a
// truncate(2) by path, never closes after writing.
constexpr std::uint32_t kFileMask =
    IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF;
// IN_CLOSE_WRITE: a download that writes under its final name is whole only then.
constexpr std::uint32_t kFolderMask = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                      IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

// 64 KiB hold 4,096 events without names; four of them are the kernel's default queue
// (fs.inotify.max_queued_events), and bound what one drain costs the control loop.
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kReadsPerDrain = 4;

Error inotify_error(int errno_value, const std::string& doing) {
  switch (errno_value) {
    case ENOSPC:
      return make_error(Errc::unavailable,
                        doing + ": the watches are used up; raise fs.inotify.max_user_watches");
    case EMFILE:
      return make_error(Errc::unavailable,
                        doing +
                            ": inotify instances or open files are used up; raise "
                            "fs.inotify.max_user_instances or the open file limit");
    case ENFILE:
      return make_error(Errc::unavailable,
                        doing + ": the system's open files are used up; raise fs.file-max");
    default:
      return make_system_error(errno_value, doing);
  }
}

/// The changes that one event stands for; an event carries several bits only for IN_UNMOUNT and
/// the like, but nothing promises that.
void append_changes(const inotify_event& event, std::string_view name,
                    std::vector<FileChange>& out) {
  using Kind = FileChange::Kind;
  if (!name.empty()) {
    out.push_back({event.wd, Kind::folder, std::string(name)});
    return;
  }
  if ((event.mask & (IN_MODIFY | IN_CLOSE_WRITE)) != 0)
    out.push_back({event.wd, Kind::content, {}});
  if ((event.mask & IN_ATTRIB) != 0) out.push_back({event.wd, Kind::attributes, {}});
  if ((event.mask & (IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT)) != 0) {
    out.push_back({event.wd, Kind::gone, {}});
  }
}

}  // namespace

/// How many hold each watch. The kernel gives one id to one inode however often it is added, so
/// the first remove() would end the watch for all.
struct FileWatch::Holders {
  std::mutex mutex;
  std::unordered_map<WatchId, unsigned> count;
  /// Adds that are in the kernel now, without the mutex, since they may hang there. The id that
  /// such an add is about to return may be one that another thread removes: those wait in `dying`
  /// until nobody adds.
  unsigned adding = 0;
  std::vector<WatchId> dying;
};

FileWatch::FileWatch(UniqueFd fd, std::unique_ptr<Holders> holders)
    : fd_(std::move(fd)), holders_(std::move(holders)) {}
FileWatch::FileWatch(FileWatch&&) noexcept = default;
FileWatch::~FileWatch() = default;

Result<FileWatch> FileWatch::create() {
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) return inotify_error(errno, "inotify_init1");
  return FileWatch(std::move(fd), std::make_unique<Holders>());
}

Result<WatchId> FileWatch::add(const std::string& path, std::uint32_t mask,
                               const std::string& doing) {
  {
    const std::lock_guard lock(holders_->mutex);
    ++holders_->adding;
  }
  // IN_MASK_ADD: else the kernel sets the mask of a watch that is there already to 0 and back, and
  // what happens in between is lost to its other holders (seen on 6.18).
  const WatchId watch = ::inotify_add_watch(fd_.get(), path.c_str(), mask | IN_MASK_ADD);
  const int failure = errno;
  {
    const std::lock_guard lock(holders_->mutex);
    if (watch >= 0) ++holders_->count[watch];
    if (--holders_->adding == 0) {
      for (const WatchId dead : std::exchange(holders_->dying, {})) {
        if (!holders_->count.contains(dead)) ::inotify_rm_watch(fd_.get(), dead);
      }
    }
  }
  if (watch < 0) return inotify_error(failure, doing);
  return watch;
}

Result<WatchId> FileWatch::add_file(int fd) {
  return add(fmt::format("/proc/self/fd/{}", fd), kFileMask, "watch an open file");
}

Result<WatchId> FileWatch::add_folder(const std::string& path) {
  return add(path, kFolderMask, "watch " + path);
}

Result<WatchId> FileWatch::add_folder(int fd) {
  return add(fmt::format("/proc/self/fd/{}", fd), kFolderMask, "watch an open folder");
}

void FileWatch::remove(WatchId watch) noexcept {
  const std::lock_guard lock(holders_->mutex);
  const auto found = holders_->count.find(watch);
  if (found == holders_->count.end()) return;  // the kernel removed it already
  if (--found->second > 0) return;
  holders_->count.erase(found);
  if (holders_->adding > 0) {
    holders_->dying.push_back(watch);
  } else {
    ::inotify_rm_watch(fd_.get(), watch);
  }
}

std::vector<FileChange> FileWatch::drain() {
  std::vector<FileChange> changes;
  std::set<std::pair<WatchId, FileChange::Kind>> told;  // a writer makes thousands of the same
  alignas(inotify_event) std::array<char, kReadBytes> buffer;
  for (int reads = 0; reads < kReadsPerDrain; ++reads) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) break;  // EAGAIN: all was told; EINTR: fd() is still readable
    const std::lock_guard lock(holders_->mutex);
    std::vector<FileChange> seen;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* name = buffer.data() + at + sizeof event;
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        seen.push_back({-1, FileChange::Kind::overflow, {}});
      } else if (holders_->count.contains(event.wd)) {
        // The name is padded with NULs to event.len.
        append_changes(event, {name, ::strnlen(name, event.len)}, seen);
        // The kernel ended the watch; ids are not used again for a long time.
        if ((event.mask & IN_IGNORED) != 0) holders_->count.erase(event.wd);
      }
    }
    for (FileChange& change : seen) {
      const bool many = change.kind == FileChange::Kind::folder;  // told apart by name
      if (many || told.emplace(change.watch, change.kind).second) {
        changes.push_back(std::move(change));
      }
    }
  }
  return changes;
}

}  // namespace andiron::probe
