// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace andiron::catalog {

/// Leaves the page cache as it was: a model that is cold stays cold when its header is read. Reads
/// through `fd` bring in no more than they ask for, and when the file had nothing resident before,
/// its pages are given back at the end. Where some were resident, all stay: they are somebody's.
/// Owns: nothing; the fd outlives it. Blocks: not on the disk.
class BorrowedPages {
 public:
  BorrowedPages(int fd, std::uint64_t size) noexcept;
  ~BorrowedPages();
  BorrowedPages(const BorrowedPages&) = delete;
  BorrowedPages& operator=(const BorrowedPages&) = delete;

 private:
  int fd_;
  bool was_cold_;
};

}  // namespace andiron::catalog
