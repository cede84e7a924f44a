// SPDX-License-Identifier: MIT
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/tier/ledger.hpp"
#include "agent/tier/page_cache.hpp"

namespace andiron::tier {

/// One inode, however many paths and models lead to it.
struct FileKey {
  std::uint64_t dev = 0;
  std::uint64_t ino = 0;
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};
inline FileKey key_of(const os::FileIdentity& identity) { return {identity.dev, identity.ino}; }

/// The files that are held, each once, with the models that hold them. A file is held as firmly as
/// the most demanding of its models wants.
/// Thread: the control loop's. Never blocks: HeldFiles that are no longer needed are handed out,
/// for the caller to end where blocking is allowed.
class PageCacheStore {
 public:
  explicit PageCacheStore(Ledger& ledger) : ledger_(ledger) {}
  PageCacheStore(const PageCacheStore&) = delete;
  PageCacheStore& operator=(const PageCacheStore&) = delete;

  /// Bytes of those files that count against the budget and do not yet, set aside.
  /// Errors: no_budget; then nothing is set aside.
  Result<std::map<FileKey, Reservation>> reserve(const std::vector<FillFile>& files, Hold hold);

  /// `model` holds `file` with `wanted` from now on. Of the file as it was held and as it is given
  /// here, the one that fits the models' wishes stays; the other comes back.
  [[nodiscard]] std::optional<HeldFile> commit(const std::string& model, HeldFile file, Hold wanted,
                                               Reservation reservation);

  /// `model` lets go of all its files. Those that nobody else holds come back.
  [[nodiscard]] std::vector<HeldFile> release(const std::string& model);
  /// `model` keeps its files as `cached` only: mappings nobody else needs come back.
  [[nodiscard]] std::vector<HeldFile> demote_to_cached(const std::string& model);
  /// Nobody holds this inode any longer: its content changed, or it is gone.
  [[nodiscard]] std::optional<HeldFile> forget(const FileKey& key);

  /// Null where the file is not held.
  const HeldFile* find(const FileKey& key) const;
  /// How all of those files are held: the least firm of them; nullopt when one is not held by
  /// `model`.
  std::optional<Hold> hold_of(const std::string& model, const std::vector<FileKey>& keys) const;

  std::uint64_t locked_bytes() const;
  /// Bytes of the files that are held as `protected`.
  std::uint64_t protected_bytes() const;
  /// Resident bytes that are mapped and not locked, but for the files of `model`: the kernel calls
  /// them available, and Andiron means to keep them.
  std::uint64_t mapped_bytes_beside(const std::string& model) const;
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    HeldFile file;
    Reservation reservation;
    std::map<std::string, Hold> models;  // with what each of them wants
    Hold wanted() const;
  };
  static HeldFile cached_copy(const HeldFile& file);
  std::optional<HeldFile> weaken(Entry& entry);

  Ledger& ledger_;
  std::map<FileKey, Entry> entries_;
};

}  // namespace andiron::tier
