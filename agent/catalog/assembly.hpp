// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/model.hpp"
#include "agent/catalog/resolver.hpp"
#include "agent/catalog/scope.hpp"
#include "agent/os/path_opener.hpp"

namespace andiron::catalog {

/// A model of 4,096 files would be unheard of; a folder of more is no model.
inline constexpr std::size_t kMaxFiles = 4096;
/// Entries of folders that one resolution looks at, whatever they are.
inline constexpr std::size_t kMaxEntries = 65536;

enum class Role { weights, companion };

/// NAME-00002-of-00005.gguf (or .safetensors): one file of a set.
struct ShardName {
  std::string prefix;
  std::uint32_t number = 0;  // from 1
  std::uint32_t count = 0;
  std::string extension;  // with its dot
  std::string file_name(std::uint32_t shard) const;
};
std::optional<ShardName> parse_shard_name(std::string_view file_name);

/// A Resolved in the making: opens each file once, checks it, and counts each inode once.
/// Thread: one. Blocks: yes. On failure: what the file's check said, with its path.
class Assembly {
 public:
  Assembly(std::string_view source, const ResolveOptions& options);

  const Scope& scope() const noexcept { return scope_; }

  /// Adds one file. `expected` is the size that a manifest gives. Errors: not_regular_file,
  /// too_large past kMaxFiles, truncated, bad_format, or locate()'s.
  Result<void> add_file(const std::string& path, Role role,
                        std::optional<std::uint64_t> expected = std::nullopt);
  /// Adds a file, or the whole set of shards that its name says it is one of. Errors: add_file()'s;
  /// incomplete_shards with the names of those missing; source_not_found where all are.
  Result<void> add_weights(const std::string& path, Role role);
  /// Adds files that must all be there. Errors: incomplete_shards with names, or add_file()'s.
  Result<void> add_all(const std::string& folder, const std::vector<std::string>& names, Role role);

  /// locate(), with the symlinks on the way watched. In a guest for a path that says so; such paths
  /// are never for a source whose scope is restricted.
  Result<Located> locate(const std::string& path);
  /// That this guest runs, and can be looked into. Errors: GuestRoot::open's; outside_roots.
  Result<void> check_guest(std::string_view guest);
  /// Names in a folder, which is watched from now on. too_large past kMaxEntries of all folders.
  Result<std::vector<std::string>> list(const Located& folder);

  void watch(const std::string& path) { watch_.insert(path); }
  void note(std::string text);
  /// Remembers that a file's content has this SHA-256, by its name in a store.
  void know_digest(std::string digest, const Located& file);
  std::size_t file_count() const noexcept { return resolved_.files.size(); }

  /// The answer, with notes on duplicates. Blocks.
  Result<Resolved> finish(const Places& places);

 private:
  struct Split {
    std::string path;
    std::uint64_t number = 0;  // from 0
    std::uint64_t count = 0;
  };
  Result<void> add_located(const Located& file, const std::string& given, Role role,
                           std::optional<std::uint64_t> expected);
  Result<void> check_header(int fd, const std::string& given, Role role);
  Result<void> check_gguf(int fd, const std::string& given, Role role);
  void keep_tensors(std::vector<Tensor>&& tensors, Role role);
  void note_lone_splits();
  void note_same_digests(const Places& places);

  Scope scope_;
  os::PathOpener opener_;
  bool want_tensors_;
  Resolved resolved_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> inodes_;  // to index of files
  std::set<std::string> given_;
  std::set<std::string> watch_;
  std::vector<Split> lone_splits_;  // whose names do not tell where their siblings are
  std::vector<std::pair<std::string, std::string>> digests_;  // hex, path
  std::uint64_t tensor_count_ = 0;
  std::size_t entries_left_ = kMaxEntries;
  std::size_t notes_left_out_ = 0;
};

}  // namespace andiron::catalog
