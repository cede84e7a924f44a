// SPDX-License-Identifier: MIT
#include "agent/catalog/duplicates.hpp"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/base/units.hpp"
#include "agent/catalog/borrowed_pages.hpp"
#include "agent/os/file.hpp"
#include "agent/os/path_opener.hpp"

namespace andiron::catalog {
namespace {

constexpr std::uint64_t kLeastBytes = kMiB;
constexpr std::uint64_t kSampleBytes = 64 * kKiB;
constexpr std::size_t kMaxCompared = 256;

struct Candidate {
  const ModelFile* file;
  std::string_view source;
};

/// The file again, if it still is what was resolved.
UniqueFd reopen(os::PathOpener& opener, const ModelFile& file) {
  Result<UniqueFd> fd = opener.open_regular(file.path);
  if (!fd) return {};
  const Result<os::FileInfo> info = os::stat_fd(fd->get());
  if (!info || info->identity != file.identity) return {};
  return std::move(*fd);
}

/// First and last 64 KiB, or nothing where they cannot be read.
std::optional<std::string> read_sample(int fd, std::uint64_t size) {
  const BorrowedPages borrowed(fd, size);
  std::string sample(2 * kSampleBytes, '\0');
  const auto read_at = [&](std::size_t at, std::uint64_t offset) {
    return ::pread(fd, sample.data() + at, kSampleBytes, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(kSampleBytes);
  };
  if (!read_at(0, 0) || !read_at(kSampleBytes, size - kSampleBytes)) return std::nullopt;
  return sample;
}

/// Where a file's first extents lie on the disk, or nothing unless all of them are shared.
std::vector<std::uint64_t> shared_extents(int fd) {
  constexpr unsigned kExtents = 32;  // Clones have all in common, others not even the first.
  std::vector<std::uint64_t> memory(
      (sizeof(fiemap) + kExtents * sizeof(fiemap_extent)) / sizeof(std::uint64_t) + 1);
  // No braces: clang warns of the array of no length at the end.
  auto* map = new (memory.data()) fiemap;
  map->fm_start = 0;
  map->fm_length = FIEMAP_MAX_OFFSET;
  map->fm_flags = 0;
  map->fm_mapped_extents = 0;
  map->fm_extent_count = kExtents;
  map->fm_reserved = 0;
  std::vector<std::uint64_t> places;
  if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0) return places;
  for (unsigned i = 0; i < map->fm_mapped_extents; ++i) {
    const fiemap_extent& extent = map->fm_extents[i];
    if ((extent.fe_flags & FIEMAP_EXTENT_SHARED) == 0) return {};
    places.push_back(extent.fe_physical);
  }
  return places;
}

std::string describe(const Candidate& first, const Candidate& second, bool reflinked) {
  const std::string size = format_bytes(second.file->identity.size);
  std::string text = second.file->path + " looks like a copy of " + first.file->path + " (" + size +
                     ", same beginning and end)";
  text += reflinked ? ": they share the disk's blocks, but each takes memory of its own"
                    : ": each takes memory of its own";
  return text;
}

std::string describe_shared(const Candidate& first, const Candidate& second) {
  return std::string(first.source) + " and " + std::string(second.source) + " share " +
         first.file->path + " (" + format_bytes(first.file->identity.size) + "): it counts once";
}

void compare_same_size(os::PathOpener& opener, const std::vector<Candidate>& group,
                       std::vector<std::string>& notes) {
  std::map<std::size_t, std::pair<Candidate, std::vector<std::uint64_t>>> seen;  // by hash
  for (const Candidate& candidate : group) {
    const UniqueFd fd = reopen(opener, *candidate.file);
    if (!fd) continue;
    const auto sample = read_sample(fd.get(), candidate.file->identity.size);
    if (!sample) continue;
    std::vector<std::uint64_t> extents = shared_extents(fd.get());
    const std::size_t hash = std::hash<std::string>{}(*sample);
    const auto [place, is_new] = seen.try_emplace(hash, candidate, extents);
    if (is_new) continue;
    const auto& [first, first_extents] = place->second;
    notes.push_back(describe(first, candidate, !extents.empty() && extents == first_extents));
  }
}

}  // namespace

std::vector<std::string> find_duplicates(const std::vector<const Resolved*>& models) {
  std::vector<std::string> notes;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Candidate> inodes;
  std::map<std::uint64_t, std::vector<Candidate>> by_size;
  for (const Resolved* model : models) {
    for (const ModelFile& file : model->files) {
      if (file.identity.size < kLeastBytes) continue;
      const Candidate candidate{&file, model->source};
      const auto [known, is_new] =
          inodes.try_emplace({file.identity.dev, file.identity.ino}, candidate);
      if (is_new)
        by_size[file.identity.size].push_back(candidate);
      else if (notes.size() < kMaxCompared)
        notes.push_back(describe_shared(known->second, candidate));
    }
  }
  os::PathOpener opener;
  std::size_t compared = 0;
  for (const auto& [size, group] : by_size) {
    if (group.size() < 2) continue;
    compared += group.size();
    if (compared > kMaxCompared) break;
    compare_same_size(opener, group, notes);
  }
  return notes;
}

}  // namespace andiron::catalog
