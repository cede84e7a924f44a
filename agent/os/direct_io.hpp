// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::os {

/// A file opened to be read past the page cache.
struct DirectFile {
  UniqueFd fd;                  // O_DIRECT
  std::uint32_t alignment = 0;  // of offset, length and memory, in bytes: a power of two
};

/// Opens what `fd` (of open_regular) has open a second time, with O_DIRECT. The alignment is what
/// statx reports; where it reports none, 4 KiB, proved by a read of the first block. A file system
/// may take such reads and serve them from its cache all the same (btrfs with compression, ZFS
/// before 2.3): who minds looks at the residency afterwards.
/// Errors: unavailable, with the reason, where the file cannot be read so. Blocks: for one read.
Result<DirectFile> open_direct(int fd);

}  // namespace andiron::os
