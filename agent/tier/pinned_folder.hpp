// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/file.hpp"
#include "agent/os/pinned_mount.hpp"

namespace andiron::tier {

/// What a copy is called in the folder: the identity of what it is a copy of, so that a name is
/// never reused for other bytes.
std::string copy_name(const os::FileIdentity& identity);

/// Who may read a copy, through the read-only face.
struct CopyAccess {
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0400;  // read bits alone
};

/// The source's owner and group, and of its read bits those that the folders above it let through
/// as well: a copy is to be seen by nobody who could not see the source. Where an ACL says more
/// than the bits do, root alone. `path` is canonical. Blocks: as stat does.
Result<CopyAccess> access_of_copy(const std::string& path, int fd);

/// The sums of a copy's chunks, in their order: XXH3 of 64 bits each.
struct Checksums {
  static constexpr std::uint64_t kChunk = 64ULL << 20;
  std::vector<std::uint64_t> sums;
  friend bool operator==(const Checksums&, const Checksums&) = default;
};
/// Reads the copy once, a chunk at a time. Blocks: 0.1 s a GB.
Result<Checksums> sum_up(int fd, std::uint64_t size);

/// What lies beside a copy.
struct CopyManifest {
  std::string source;  // the path that it was read from
  os::FileIdentity identity;
  std::optional<Checksums> checksums;  // not yet, right after a fill
};

/// A copy in the making, that nobody sees. Removed at the end unless it was published.
class CopyDraft {
 public:
  CopyDraft(CopyDraft&& other) noexcept;
  CopyDraft& operator=(CopyDraft&&) = delete;
  CopyDraft(const CopyDraft&) = delete;
  ~CopyDraft();
  int fd() const noexcept { return fd_.get(); }  // to read and write

 private:
  friend class PinnedFolder;
  CopyDraft(int copies, std::string name, UniqueFd fd);
  int copies_;  // the folder's
  std::string name_;
  UniqueFd fd_;
};

/// The pinned-ram tier's tmpfs: whole copies with their manifests in `.copies`, which only root may
/// enter, and hard links to them in a folder for each model, which everybody sees. All that is
/// known of a copy is in the folder itself, so that an agent that was killed loses nothing. Thread:
/// any. Never blocks: a few calls on a tmpfs.
class PinnedFolder {
 public:
  static Result<PinnedFolder> open(os::PinnedMount mount, std::string readable);

  /// An empty file of that size, as `andiron` root's alone. A draft that a killed agent left goes.
  Result<CopyDraft> begin(const os::FileIdentity& identity) const;
  /// From now on the copy is whole, whatever happens to the agent. The draft's bytes must be there.
  Result<void> publish(CopyDraft& draft, const CopyManifest& manifest,
                       const CopyAccess& access) const;
  /// The manifest of a whole copy of just that; nullopt where there is none.
  Result<std::optional<CopyManifest>> find(const os::FileIdentity& identity) const;
  /// A copy, to read. Errors: source_not_found.
  Result<UniqueFd> open_copy(const os::FileIdentity& identity) const;
  /// A model's file, to give away: opened through the read-only face, so that whoever gets it can
  /// neither write nor change the copy's mode, be it his own. Errors: unavailable where the name
  /// does not lead to that copy, or the face is not read-only.
  Result<UniqueFd> open_readable(const std::string& model, const std::string& name,
                                 const os::FileIdentity& identity) const;
  /// What others still have open, in bytes: of copies that have no name any longer.
  Result<std::uint64_t> nameless_bytes() const;
  Result<void> write_manifest(const CopyManifest& manifest) const;
  /// No name leads to it any longer in `.copies`; names of models still may. Its memory goes when
  /// nobody has it open.
  Result<void> remove(const os::FileIdentity& identity) const;

  /// The model's folder has just these files from now on: relative name, and whose copy.
  Result<void> set_names(const std::string& model,
                         const std::vector<std::pair<std::string, os::FileIdentity>>& files) const;
  Result<void> remove_names(const std::string& model) const;
  /// Removes the copies, drafts and model folders that are not named here, while no copy is being
  /// made. Their memory goes with the descriptors that come back, which takes a while.
  Result<std::vector<UniqueFd>> sweep(const std::set<std::string>& copies,
                                      const std::set<std::string>& models) const;

  /// Of a model's folder, as others see it: the read-only face.
  std::string path_of(const std::string& model) const;
  std::uint64_t device() const noexcept { return device_; }  // st_dev of all that is in it
  bool huge() const noexcept { return mount_.huge; }
  bool noswap() const noexcept { return mount_.noswap; }
  const std::vector<std::string>& notes() const noexcept { return mount_.notes; }

 private:
  PinnedFolder(os::PinnedMount mount, UniqueFd copies, std::string readable, std::uint64_t device);
  os::PinnedMount mount_;
  UniqueFd copies_;
  std::uint64_t device_;
  std::string readable_;
};

/// A model's name as the name of a folder: what is not a letter, a digit or one of "._:@+-" is
/// %XX, as is a leading dot.
std::string folder_name(const std::string& model);

}  // namespace andiron::tier
