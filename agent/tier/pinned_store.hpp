// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/tier/ledger.hpp"
#include "agent/tier/page_cache_store.hpp"
#include "agent/tier/pinned_ram.hpp"

namespace andiron::tier {

/// The copies that are held in pinned RAM, each once, with the models that hold them.
/// Thread: the control loop's. Never blocks: PinnedFiles that are no longer needed are handed out,
/// for the caller to end, and to remove from the folder, where blocking is allowed.
class PinnedStore {
 public:
  explicit PinnedStore(Ledger& ledger) : ledger_(ledger) {}
  PinnedStore(const PinnedStore&) = delete;
  PinnedStore& operator=(const PinnedStore&) = delete;

  /// Bytes of those files that are not held yet, set aside, each inode once.
  /// Errors: no_budget; then nothing is set aside.
  Result<std::map<FileKey, Reservation>> reserve(const std::vector<FillFile>& files);

  /// `model` holds `file` from now on. Where it is held already, what is not needed of the two
  /// comes back: its copy stays in the folder as long as the other does, since they are one.
  [[nodiscard]] std::optional<PinnedFile> commit(const std::string& model, PinnedFile file,
                                                 Reservation reservation);
  /// `model` lets go of all its copies. Those that nobody else holds come back.
  [[nodiscard]] std::vector<PinnedFile> release(const std::string& model);
  /// Nobody holds this inode's copy any longer: its content changed, or it is gone.
  [[nodiscard]] std::optional<PinnedFile> forget(const FileKey& key);
  /// A copy that has no checksums yet; null where all have.
  const PinnedFile* unsealed() const;
  /// The copy has its checksums now.
  void sealed(const os::FileIdentity& identity);

  /// Null where there is no copy.
  const PinnedFile* find(const FileKey& key) const;
  /// Bytes of those files whose copies `model` holds.
  std::uint64_t bytes_of(const std::string& model, const std::vector<FileKey>& keys) const;
  std::uint64_t bytes() const;
  /// What sweeping the folder has to leave.
  std::set<std::string> copy_names() const;
  std::set<std::string> models() const;

 private:
  struct Entry {
    PinnedFile file;
    Reservation reservation;
    std::set<std::string> models;
  };
  Ledger& ledger_;
  std::map<FileKey, Entry> entries_;
};

}  // namespace andiron::tier
