// SPDX-License-Identifier: MIT
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/guest_root.hpp"

namespace andiron::catalog {

/// Something found by its path: not opened to read yet, but no longer to be swapped for another.
struct Located {
  std::string path;  // absolute, no symlinks; of a guest's, "guest:NAME:/path"
  UniqueFd fd;       // O_PATH
  struct stat status = {};
  bool is_file() const noexcept { return S_ISREG(status.st_mode); }
  bool is_folder() const noexcept { return S_ISDIR(status.st_mode); }
};

/// The part of the file system in which sources may lie.
/// It walks a path itself, one component at a time through O_PATH descriptors, and looks at nothing
/// outside the roots: whether something exists there is not to be learned from its errors, neither
/// by "..", nor by a symlink, nor by swapping one for another in between.
/// Thread: any, immutable. Blocks: yes. Owns: strings.
class Scope {
 public:
  static Scope everywhere() { return {}; }
  /// Roots may be symlinks themselves, and may not exist. Those that lie on a network file system
  /// are not looked at before a path below them is asked for: it may have gone away, and the rest
  /// is not to wait for it. Blocks.
  static Scope below(const std::vector<std::string>& roots);

  /// `path` must be absolute. Symlinks that were followed are added to `links`, by path.
  /// Errors: outside_roots, symlink_loop (40 links), or the kernel's: ENOENT, EACCES, ...
  Result<Located> locate(std::string_view path, std::vector<std::string>* links = nullptr) const;

  bool restricted() const noexcept { return restricted_; }

 private:
  bool may_pass(const std::string& path, const std::vector<std::string>& real) const noexcept;
  bool may_end(const std::string& path, const std::vector<std::string>& real) const noexcept;
  std::vector<std::string> real_roots_for(std::string_view path) const;

  bool restricted_ = false;
  std::vector<std::string> real_roots_;     // symlinks resolved: where a path may end
  std::vector<std::string> lexical_roots_;  // as given: what a path may pass on its way
  std::vector<std::string> network_roots_;  // of these, those on network file systems
};

/// Scope::locate() within a guest, where "/" is the guest's root and symlinks lead to what they
/// mean there. `path` is as seen in there; what comes back names the guest.
Result<Located> locate_in_guest(const os::GuestRoot& guest, std::string_view path,
                                std::vector<std::string>* links = nullptr);

/// Is `path` the folder `root` or in it? Both absolute and normal; whole components count.
bool is_below(std::string_view path, std::string_view root) noexcept;

/// Opens a located file to read. Errors: not_regular_file, permission_denied, or open(2)'s.
Result<UniqueFd> open_located(const Located& located);

/// Names in a located folder, sorted, without "." and "..". too_large past `limit`.
Result<std::vector<std::string>> list_located(const Located& folder, std::size_t limit);

/// All of a located file, as text. too_large past `limit` bytes.
Result<std::string> read_located(const Located& file, std::size_t limit);

/// "/a/b" and "c" to "/a/b/c".
std::string join_path(std::string_view folder, std::string_view name);
/// The part before the last slash ("/" for "/a", "guest:x:/" for "guest:x:/a"), and the part behind
/// it.
std::string parent_path(std::string_view path);
std::string base_name(std::string_view path);

}  // namespace andiron::catalog
