// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/base/mapped_region.hpp"
#include "agent/base/range.hpp"
#include "agent/base/result.hpp"

namespace andiron::tier {

/// What MADV_POPULATE_READ said.
enum class Populated {
  done,
  fault,        // EFAULT: past the end of a file cut short, or the device failed
  unsupported,  // EINVAL: before Linux 5.14, or a mapping that cannot
};

/// Maps the pages of a range of a file's mapping, reading those that are missing. Blocks: until
/// they are there. Errors: no_headroom when the kernel has no memory for them, io_error for a page
/// that the hardware lost.
Result<Populated> populate(const MappedRegion& mapping, ByteRange range);

/// Has the kernel begin to read a range, as far as one call does that: no more than the larger of
/// the device's read-ahead and largest request, in silence. Blocks: while the device's queue is
/// full. Its errors do not matter: who waits for the pages meets them too.
void read_ahead(int fd, ByteRange range) noexcept;

/// Reads ahead of fd twice as far.
void advise_for_filling(int fd) noexcept;
/// Makes reading through a range of a mapping quick: the kernel then reads in 4 MiB pieces of huge
/// folios whatever the device's read-ahead is (do_sync_mmap_readahead of mm/filemap.c, from 5.18
/// on). For a mapping that is only filled through, and for ranges that have room for such folios:
/// elsewhere each is allocated in vain. False where the kernel knows no huge pages.
bool advise_huge(const MappedRegion& mapping, ByteRange range) noexcept;
/// Takes back what was said of fd.
void advise_as_usual(int fd) noexcept;

/// By mincore: true as well where the kernel does not say (to those who do not own the file).
bool all_resident(const MappedRegion& mapping, ByteRange range);

struct PageLock {
  std::uint64_t bytes = 0;            // from the mapping's start
  std::optional<std::string> reason;  // why it is not all of it
};

/// Locks what comes into a mapping from now on, and what is mapped there already:
/// mlock2(MLOCK_ONFAULT), which reads nothing. Where a limit does not let all of it be locked, as
/// much from its start as the limit does let. The lock ends with the mapping.
PageLock lock_on_fault(const MappedRegion& mapping);

}  // namespace andiron::tier
