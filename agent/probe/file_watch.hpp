// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::probe {

using WatchId = int;

struct FileChange {
  enum class Kind {
    content,   // written, truncated, closed after writing
    gone,      // unlinked, renamed away, replaced, unmounted: what the path means has changed
    folder,    // a name appeared in, or left, a watched folder: `name`
    overflow,  // the kernel dropped events: look at everything again
  };
  WatchId watch = 0;
  Kind kind = Kind::content;
  std::string name;
};

/// inotify, without threads: fd() polls readable and drain() never blocks.
/// Thread: add and remove from any (the kernel serialises them), drain from one. A watch holds
/// no fd of the file, so it neither keeps a deleted file's blocks nor blocks an unmount.
class FileWatch {
 public:
  /// Errors: unavailable, with what to raise, when the user's inotify instances are used up.
  static Result<FileWatch> create();

  /// Watches what an open file is now: `fd` of a regular file. Blocks as /proc/self/fd does: not.
  Result<WatchId> add_file(int fd);
  /// Watches names that appear in or leave a folder. Blocks: a path lookup. ENOENT and the rest are
  /// errors; ENOSPC (fs.inotify.max_user_watches) becomes unavailable with the remedy.
  Result<WatchId> add_folder(const std::string& path);
  void remove(WatchId watch) noexcept;

  int fd() const noexcept { return fd_.get(); }
  std::vector<FileChange> drain();

 private:
  explicit FileWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace andiron::probe
