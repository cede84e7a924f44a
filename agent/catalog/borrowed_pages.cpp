// SPDX-License-Identifier: MIT
#include "agent/catalog/borrowed_pages.hpp"

#include <fcntl.h>

#include "agent/os/residency.hpp"

namespace andiron::catalog {

// Advice that a file system does not take changes how many pages are read and nothing else.
BorrowedPages::BorrowedPages(int fd, std::uint64_t size) noexcept
    : fd_(fd), was_cold_(os::read_residency(fd, size).resident_bytes == 0u) {
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
}

BorrowedPages::~BorrowedPages() {
  if (was_cold_) ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace andiron::catalog
