// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/range.hpp"
#include "agent/base/result.hpp"
#include "agent/stream/read_backend.hpp"

namespace andiron::tier {

/// Brings a file's pages in by reading them and throwing the bytes away: slower and dearer than
/// populating, but every kernel and file system has it, and it names what went wrong and where.
/// Owns a bounce buffer of at most 4 MiB, made when first used: it lives as long as the lane task,
/// to which a read that the kernel does not give back leaves it (stream::LaneTask::run). Thread:
/// that of the backend.
class BufferedReads {
 public:
  explicit BufferedReads(stream::ReadBackend& backend) : backend_(backend) {}

  /// Reads all of `range` of fd. Blocks: until no read of it is in flight, whether it went well or
  /// not, but for reads that stay in the kernel 5 s after an error. Errors: the read's own, with
  /// the offset; stale when the file ends before the range does.
  Result<void> read(int fd, ByteRange range);

 private:
  Result<void> submit_next(int fd, std::uint64_t slot, ByteRange& rest);
  Result<void> reap(int fd, ByteRange& rest);
  Result<void> settle(const stream::ReadCompletion& completion);
  void drain();

  struct Slot {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  stream::ReadBackend& backend_;
  MappedRegion bounce_;
  std::vector<Slot> slots_;
  bool stuck_ = false;
};

}  // namespace andiron::tier
