// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/range.hpp"
#include "agent/base/result.hpp"

namespace andiron::os {

/// How much of a file is in the page cache. Unknown is a value: nullopt with the reason.
struct Residency {
  std::optional<std::uint64_t> resident_bytes;
  std::string reason;  // why it is unknown; empty otherwise
};

enum class ResidencyMethod { automatic, cachestat, mincore };

/// Counts the resident bytes of `size` bytes of fd. `automatic` asks cachestat(2) where it tells
/// the truth: not on overlayfs and FUSE (their pages may be another inode's) and not where it
/// answers EPERM or ENOSYS; then mincore(2) over a mapping of its own. That is right only for the
/// owner, a writer or CAP_FOWNER (others are told "all resident"): whether it is, is found out by
/// asking for a page far past the end. ZFS is unknown: its ARC holds the data. The tail page counts
/// as the bytes of the file in it. Thread: any. Blocks: for the walk; measured a GiB in 4 KiB
/// folios: 20 ms by cachestat, 120 ms by mincore (20 ms where nothing is cached; cachestat then
/// takes none).
Residency read_residency(int fd, std::uint64_t size,
                         ResidencyMethod method = ResidencyMethod::automatic);

/// The ranges of [0, size) that are not resident, page aligned (the last one ends at size), in
/// order, neighbours merged; gaps of resident pages shorter than `merge_gap` bytes between two
/// missing ranges are swallowed, so that a checkerboard does not become a million reads. At most
/// `limit` ranges: past it the rest of the file is one range. Where cachestat may be asked and
/// mincore not (a stranger's file, Linux 6.5 to 6.13), a partly resident 64 MiB is missing as a
/// whole.
/// Errors: unavailable when residency cannot be known (then treat all as missing).
Result<std::vector<ByteRange>> missing_ranges(int fd, std::uint64_t size,
                                              std::uint64_t merge_gap = 0,
                                              std::size_t limit = 65536);

/// What of a mapping is really there, by /proc/self/smaps.
struct PresentBytes {
  std::uint64_t locked = 0;
  std::uint64_t huge = 0;  // of tmpfs, mapped as huge pages
};
/// Blocks: for the page tables of the mappings up to this one.
Result<PresentBytes> present_bytes(const MappedRegion& region);

/// Bytes of the mapping that are really there and locked, from /proc/self/smaps: the Rss of its
/// areas that have the flag "lo". VmLck counts what is not there yet, too. smaps' own Locked is the
/// same number while nobody else maps the file, and a share of it (it is proportional, as Pss is)
/// once a runtime does. Blocks: for the page tables of the mappings up to this one.
Result<std::uint64_t> locked_bytes(const MappedRegion& region);

}  // namespace andiron::os
