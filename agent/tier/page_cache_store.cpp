// SPDX-License-Identifier: MIT
#include "agent/tier/page_cache_store.hpp"

#include <algorithm>
#include <utility>

namespace andiron::tier {

Hold PageCacheStore::Entry::wanted() const {
  Hold most = Hold::cached;
  for (const auto& [model, hold] : models)
    most = std::max(most, hold);
  return most;
}

/// The same file with no more than a record of it: `cached` owns nothing.
HeldFile PageCacheStore::cached_copy(const HeldFile& file) {
  HeldFile copy;
  copy.path = file.path;
  copy.identity = file.identity;
  copy.hold = Hold::cached;
  copy.resident_bytes = file.resident_bytes;
  copy.resident_known = file.resident_known;
  return copy;
}

Result<std::map<FileKey, Reservation>> PageCacheStore::reserve(const std::vector<FillFile>& files,
                                                               Hold hold) {
  std::map<FileKey, Reservation> reserved;
  if (hold < Hold::mapped) return reserved;
  for (const FillFile& file : files) {
    const FileKey key = key_of(file.identity);
    const auto entry = entries_.find(key);
    if (reserved.contains(key)) continue;
    if (entry != entries_.end() && entry->second.reservation.bytes() >= file.identity.size)
      continue;
    reserved.emplace(key, TRY(ledger_.reserve(file.identity.size)));
  }
  return reserved;
}

std::optional<HeldFile> PageCacheStore::commit(const std::string& model, HeldFile file, Hold wanted,
                                               Reservation reservation) {
  const FileKey key = key_of(file.identity);
  Entry& entry = entries_[key];
  const bool fresh = entry.models.empty();
  entry.models[model] = wanted;
  const bool replace = fresh || entry.file.identity != file.identity ||
                       file.hold >= entry.wanted() || file.hold > entry.file.hold;
  std::optional<HeldFile> rest;
  if (replace) {
    std::swap(entry.file, file);
    if (!fresh) rest = std::move(file);
  } else {
    rest = std::move(file);
  }
  if (reservation.bytes() > entry.reservation.bytes()) entry.reservation = std::move(reservation);
  if (entry.file.hold == Hold::cached) entry.reservation.release();
  return rest;
}

std::optional<HeldFile> PageCacheStore::weaken(Entry& entry) {
  if (entry.wanted() > Hold::cached || entry.file.hold == Hold::cached) return std::nullopt;
  HeldFile firm = std::exchange(entry.file, cached_copy(entry.file));
  entry.reservation.release();
  return firm;
}

std::vector<HeldFile> PageCacheStore::release(const std::string& model) {
  std::vector<HeldFile> rest;
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (entry.models.erase(model) == 0) {
      ++it;
    } else if (entry.models.empty()) {
      rest.push_back(std::move(entry.file));
      it = entries_.erase(it);
    } else {
      if (auto firm = weaken(entry)) rest.push_back(std::move(*firm));
      ++it;
    }
  }
  return rest;
}

std::vector<HeldFile> PageCacheStore::demote_to_cached(const std::string& model) {
  std::vector<HeldFile> rest;
  for (auto& [key, entry] : entries_) {
    const auto wish = entry.models.find(model);
    if (wish == entry.models.end()) continue;
    wish->second = Hold::cached;
    if (auto firm = weaken(entry)) rest.push_back(std::move(*firm));
  }
  return rest;
}

std::optional<HeldFile> PageCacheStore::forget(const FileKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return std::nullopt;
  HeldFile file = std::move(it->second.file);
  entries_.erase(it);
  return file;
}

const HeldFile* PageCacheStore::find(const FileKey& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second.file;
}

std::optional<Hold> PageCacheStore::hold_of(const std::string& model,
                                            const std::vector<FileKey>& keys) const {
  std::optional<Hold> least;
  for (const FileKey& key : keys) {
    const auto it = entries_.find(key);
    if (it == entries_.end() || !it->second.models.contains(model)) return std::nullopt;
    least = std::min(least.value_or(Hold::locked), it->second.file.hold);
  }
  return least;
}

std::uint64_t PageCacheStore::locked_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_)
    sum += entry.file.locked_bytes;
  return sum;
}

std::uint64_t PageCacheStore::protected_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_) {
    if (entry.file.hold == Hold::protected_) sum += entry.file.identity.size;
  }
  return sum;
}

std::uint64_t PageCacheStore::mapped_bytes_beside(const std::string& model) const {
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_) {
    const HeldFile& file = entry.file;
    if (file.hold < Hold::mapped || entry.models.contains(model)) continue;
    sum += file.resident_bytes - std::min(file.locked_bytes, file.resident_bytes);
  }
  return sum;
}

}  // namespace andiron::tier
