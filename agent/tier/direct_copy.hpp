// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/range.hpp"
#include "agent/base/result.hpp"
#include "agent/os/direct_io.hpp"
#include "agent/stream/engine.hpp"

namespace andiron::tier {

/// Reads a file into a mapping of its copy: what the page cache has through it, the rest past it.
/// Offsets in the file and in the mapping are the same, so whatever alignment the file wants its
/// destination has. Where O_DIRECT does not go, all through the page cache.
/// Thread: the lane's. On failure no read is in flight, but for those that stay in the kernel: the
/// lane then keeps the task (stream::LaneTask::run), and with it the mapping.
class DirectCopy {
 public:
  /// `fd` of open_regular; `to` is at least `size` bytes, up to a page's end. Both outlive it.
  DirectCopy(stream::LaneContext& lane, int fd, std::uint64_t size, const MappedRegion& to);
  DirectCopy(const DirectCopy&) = delete;
  DirectCopy& operator=(const DirectCopy&) = delete;
  ~DirectCopy();

  /// Finds out how the file can be read, and what of it is resident. Blocks: for the walk.
  void prepare();

  /// Submits reads of all before `end`, which must be there in memory, as far as there is room, and
  /// takes what has come. Bytes that were read since the last call. Errors: stale when the file
  /// ends too early; the reads' own.
  Result<std::uint64_t> read_until(std::uint64_t end);
  /// Waits for what is in flight. Bytes, and errors, as above.
  Result<std::uint64_t> finish();

  /// Gives back what the file system cached although it was asked not to, and notes that.
  void leave_cold();

  /// For people: why not all was read past the page cache, or into registered memory.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  struct Piece {
    ByteRange range;
    bool direct = false;
    std::optional<unsigned> memory = {};
  };
  void plan();
  Result<void> submit(Piece piece);
  Result<std::uint64_t> reap();
  Result<std::uint64_t> settle(const stream::ReadCompletion& completion);
  std::optional<unsigned> registered(const ByteRange& range);
  void give_up_direct(const std::string& why);

  stream::LaneContext& lane_;
  const int fd_;
  const std::uint64_t size_;
  const MappedRegion& to_;
  std::optional<os::DirectFile> file_;  // stays open while reads of it may be continued
  bool direct_ = false;                 // further reads go through file_
  std::vector<ByteRange> missing_;
  std::uint64_t resident_before_ = 0;
  bool used_direct_ = false;
  std::deque<Piece> pieces_;  // not submitted yet
  std::map<std::uint64_t, Piece> in_flight_;
  std::uint64_t next_id_ = 0;
  struct Region {
    std::uint64_t number = 0;
    bool registered = false;
    std::size_t reads = 0;  // in flight
  };
  std::array<Region, stream::ReadBackend::kMemorySlots> regions_{};
  bool registers_ = true;
  std::vector<std::string> notes_;
};

}  // namespace andiron::tier
