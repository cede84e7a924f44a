// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/os/mounts.hpp"

namespace andiron::cli {

/// How far `setup` looks. A home server's folders of models are shallow and hold hundreds of
/// files; what goes past these bounds is some other tree, and is left with a note.
struct ScanLimits {
  unsigned depth = 4;            // folders below a place that is walked
  std::size_t entries = 20'000;  // looked at in one place
  std::size_t models = 2'000;    // in all
  std::size_t processes = 50'000;
  std::chrono::milliseconds time{15'000};           // for the whole scan
  std::chrono::milliseconds network_answer{2'000};  // for a network file system to say anything
};

/// Reads a machine's files below a prefix ("" but in tests), within ScanLimits, and remembers what
/// it could not see. Names in the tree are hostile: nothing here follows a symlinked folder (but
/// the place asked for itself), opens what is no regular file, or reads past a bound.
/// Thread: one. Blocks: as the file systems do; network mounts are asked first, with a deadline.
class TreeReader {
 public:
  TreeReader(std::string root, const ScanLimits& limits, const Clock& clock);

  const std::string& root() const noexcept { return root_; }
  const ScanLimits& limits() const noexcept { return limits_; }
  const Clock& clock() const noexcept { return clock_; }
  /// The path as it lies in the tree: with the prefix.
  std::string at(std::string_view path) const;
  /// The path as the machine itself calls it: without the prefix.
  std::string machine_path(std::string_view path) const;

  struct Entry {
    std::string name;
    bool folder = false;  // a real one: a symlink to a folder is none
    bool symlink = false;
  };
  /// A folder's entries, sorted by name, without "." and "..". Empty where it cannot be read, which
  /// is remembered when permission was the reason.
  std::vector<Entry> list(const std::string& path);
  /// A regular file's content; nullopt when it is absent, no regular file, or longer than `most`.
  std::optional<std::string> read(const std::string& path, std::size_t most);
  std::optional<std::string> read_link(const std::string& path) const;
  bool is_folder(const std::string& path);

  /// Calls `visit` for `top` and each folder below it, down to the limits. `visit` gets the folder
  /// and its entries, and answers whether to go deeper there.
  void walk(const std::string& top,
            const std::function<bool(const std::string&, const std::vector<Entry>&)>& visit);

  /// The mount that a path (with the prefix) lies on, by the tree's /proc/self/mountinfo.
  const os::Mount* mount_of(std::string_view path) const;
  const std::vector<os::Mount>& mounts() const noexcept { return mounts_; }

  bool out_of_time();
  const std::set<std::string>& unreadable() const noexcept { return unreadable_; }
  /// Sentences about what was not looked at to the end.
  const std::set<std::string>& cut_short() const noexcept { return cut_short_; }
  void note_cut_short(std::string sentence);

 private:
  bool answers(const std::string& path);

  std::string root_;
  ScanLimits limits_;
  const Clock& clock_;
  SteadyTime deadline_;
  std::vector<os::Mount> mounts_;
  std::set<std::string> silent_mounts_, answering_mounts_;
  std::set<std::string> unreadable_, cut_short_;
};

/// True for file systems behind a network or a user-space server: they may stall.
bool is_network_type(std::string_view type);

}  // namespace andiron::cli
