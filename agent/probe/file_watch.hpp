// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::probe {

using WatchId = int;

struct FileChange {
  enum class Kind {
    content,  // written, truncated, closed after writing
    /// Mode, owner, times or the number of names changed. Of a file that somebody has open or
    /// mapped, which Andiron itself may be, this is all that an unlink or a rename over it gives:
    /// stat the path and compare.
    attributes,
    gone,      // renamed away, deleted for good, unmounted: what the path means has changed
    folder,    // a name appeared in, or left, a watched folder, or was written there: `name`
    overflow,  // the kernel dropped events: look at everything again; `watch` is -1
  };
  WatchId watch = 0;
  Kind kind = Kind::content;
  std::string name;
  friend bool operator==(const FileChange&, const FileChange&) = default;
};

/// inotify, without threads: fd() polls readable and drain() never blocks. What it tells is a
/// reason to look, and can come more often than a change; a look (stat) after add_*() returned and
/// after each change misses nothing.
/// Thread: add and remove from any, drain from one. A watch holds no fd of the file, so it
/// neither keeps a deleted file's blocks nor blocks an unmount.
/// Not seen: what others write on a network file system's server, and stores through a shared
/// mapping. Those are found by the identity alone.
class FileWatch {
 public:
  /// Errors: unavailable, with what to raise, when the user's inotify instances are used up.
  static Result<FileWatch> create();
  FileWatch(FileWatch&&) noexcept;  // before it is shared
  FileWatch& operator=(FileWatch&&) = delete;
  ~FileWatch();

  /// Watches what an open file is now: `fd` of a regular file. Blocks as /proc/self/fd does: not,
  /// but on a network file system that went away. The same file watched twice (two models with one
  /// blob) has one id, and is watched until it was removed as often.
  Result<WatchId> add_file(int fd);
  /// Watches names that appear in or leave a folder. Blocks: a path lookup. ENOENT and the rest are
  /// errors; ENOSPC (fs.inotify.max_user_watches) becomes unavailable with the remedy.
  Result<WatchId> add_folder(const std::string& path);
  /// The same of an open folder, whatever its path means by now.
  Result<WatchId> add_folder(int fd);
  /// Nothing of it comes from a drain() that begins afterwards. Never blocks. An id that the kernel
  /// removed itself (gone) may be removed, and need not be.
  void remove(WatchId watch) noexcept;

  int fd() const noexcept { return fd_.get(); }
  /// What happened so far, oldest first, each change of a file once. At most about 16,000 events
  /// are taken at a time; fd() stays readable while there are more.
  std::vector<FileChange> drain();

 private:
  struct Holders;
  FileWatch(UniqueFd fd, std::unique_ptr<Holders> holders);
  Result<WatchId> add(const std::string& path, std::uint32_t mask, const std::string& doing);

  UniqueFd fd_;
  std::unique_ptr<Holders> holders_;
};

}  // namespace andiron::probe
