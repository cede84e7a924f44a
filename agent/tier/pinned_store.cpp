// SPDX-License-Identifier: MIT
#include "agent/tier/pinned_store.hpp"

#include <utility>

namespace andiron::tier {

Result<std::map<FileKey, Reservation>> PinnedStore::reserve(const std::vector<FillFile>& files) {
  std::map<FileKey, Reservation> reservations;
  for (const FillFile& file : files) {
    const FileKey key = key_of(file.identity);
    const auto held = entries_.find(key);
    const bool there = held != entries_.end() && held->second.file.identity == file.identity;
    if (there || reservations.contains(key)) continue;
    reservations.emplace(key, TRY(ledger_.reserve(file.identity.size)));
  }
  return reservations;
}

std::optional<PinnedFile> PinnedStore::commit(const std::string& model, PinnedFile file,
                                              Reservation reservation) {
  Entry& entry = entries_[key_of(file.identity)];
  entry.models.insert(model);
  if (entry.file.fd && entry.file.identity == file.identity) return file;
  entry.reservation = std::move(reservation);
  PinnedFile before = std::exchange(entry.file, std::move(file));
  if (!before.fd) return std::nullopt;
  return before;
}

std::vector<PinnedFile> PinnedStore::release(const std::string& model) {
  std::vector<PinnedFile> released;
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (entry.models.erase(model) > 0 && entry.models.empty()) {
      released.push_back(std::move(entry.file));
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
  return released;
}

std::optional<PinnedFile> PinnedStore::forget(const FileKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  PinnedFile file = std::move(found->second.file);
  entries_.erase(found);
  return file;
}

const PinnedFile* PinnedStore::unsealed() const {
  for (const auto& [key, entry] : entries_) {
    if (!entry.file.sealed) return &entry.file;
  }
  return nullptr;
}

void PinnedStore::sealed(const os::FileIdentity& identity) {
  const auto found = entries_.find(key_of(identity));
  if (found != entries_.end() && found->second.file.identity == identity) {
    found->second.file.sealed = true;
  }
}

const PinnedFile* PinnedStore::find(const FileKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second.file;
}

std::uint64_t PinnedStore::bytes_of(const std::string& model,
                                    const std::vector<FileKey>& keys) const {
  std::uint64_t sum = 0;
  for (const FileKey& key : keys) {
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.models.contains(model)) {
      sum += found->second.file.identity.size;
    }
  }
  return sum;
}

std::uint64_t PinnedStore::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_)
    sum += entry.file.identity.size;
  return sum;
}

std::set<std::string> PinnedStore::copy_names() const {
  std::set<std::string> names;
  for (const auto& [key, entry] : entries_)
    names.insert(copy_name(entry.file.identity));
  return names;
}

std::set<std::string> PinnedStore::models() const {
  std::set<std::string> models;
  for (const auto& [key, entry] : entries_)
    models.insert(entry.models.begin(), entry.models.end());
  return models;
}

}  // namespace andiron::tier
