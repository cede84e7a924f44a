// SPDX-License-Identifier: MIT
#include "agent/tier/direct_copy.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/base/units.hpp"
#include "agent/os/file.hpp"
#include "agent/os/residency.hpp"

namespace andiron::tier {
namespace {

/// A huge page. Past 1 MiB a device gains nothing more, and fewer reads cost less.
constexpr std::uint64_t kRead = 2 * kMiB;
/// Reads in flight: 32 MiB keep every disk busy that a home has.
constexpr std::size_t kReads = 16;
/// Memory is registered in such regions, so that a fill need not have all of its memory first.
constexpr std::uint64_t kRegion = 64 * kMiB;
constexpr std::uint64_t kPage = 4096;
/// Missing ranges with less between them are read as one: a page that is resident costs more as a
/// read of its own than it costs to read again.
constexpr std::uint64_t kMergeGap = 256 * kKiB;
constexpr std::chrono::milliseconds kReapTimeout{1000};
constexpr std::chrono::milliseconds kCancelWait{5000};

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

DirectCopy::DirectCopy(stream::LaneContext& lane, int fd, std::uint64_t size,
                       const MappedRegion& to)
    : lane_(lane), fd_(fd), size_(size), to_(to) {}

DirectCopy::~DirectCopy() {
  // Reads that stay in the kernel keep their memory: the lane sees to that.
  if (!in_flight_.empty() && !lane_.reads.cancel_all(kCancelWait)) return;
  for (unsigned slot = 0; slot < regions_.size(); ++slot) {
    if (regions_[slot].registered) lane_.reads.unregister_memory(slot);
  }
}

void DirectCopy::prepare() {
  // Looked at first: the proof that direct reads go may bring pages in.
  missing_ = {{0, size_}};
  if (auto missing = os::missing_ranges(fd_, size_, kMergeGap)) missing_ = std::move(*missing);
  resident_before_ = size_ - total_length(missing_);
  const auto traits = os::filesystem_traits(fd_);
  const bool in_memory = traits && traits->memory_backed;
  if (!in_memory) {
    if (Result<os::DirectFile> direct = os::open_direct(fd_)) {
      file_ = std::move(*direct);
      direct_ = true;
    } else {
      notes_.push_back(direct.error().context + ", reading through the page cache");
    }
  }
  plan();
}

/// Missing ranges go past the page cache as far as the file's alignment allows, the rest through.
void DirectCopy::plan() {
  const auto cut = [this](ByteRange range, bool direct) {
    while (range.length > 0) {
      const std::uint64_t length = std::min(range.length, kRead - range.offset % kRead);
      pieces_.push_back({{range.offset, length}, direct});
      range = {range.offset + length, range.length - length};
    }
  };
  const std::uint64_t alignment = direct_ ? std::max<std::uint64_t>(file_->alignment, kPage) : 1;
  std::uint64_t at = 0;
  for (const ByteRange& range : missing_) {
    const std::uint64_t begin = round_up(std::max(range.offset, at), alignment);
    std::uint64_t end = range.end();
    // The last block is read whole where the mapping has room for it, its page.
    if (end < size_ || alignment > kPage) end = end / alignment * alignment;
    if (!direct_ || begin >= end) continue;
    cut({at, begin - at}, false);
    cut({begin, end - begin}, true);
    at = end;
  }
  cut({at, size_ - at}, false);
}

/// The slot of the region that all of the range lies in, registered if it was not; nullopt where it
/// cannot be.
std::optional<unsigned> DirectCopy::registered(const ByteRange& range) {
  const std::uint64_t number = range.offset / kRegion;
  const auto slot = static_cast<unsigned>(number % regions_.size());
  Region& region = regions_[slot];
  if (region.registered && region.number == number) return slot;
  if (!registers_ || region.reads > 0) return std::nullopt;
  if (std::exchange(region.registered, false)) lane_.reads.unregister_memory(slot);
  const std::uint64_t begin = number * kRegion;
  const std::uint64_t length = std::min<std::uint64_t>(kRegion, to_.size() - begin);
  const Result<void> done =
      lane_.reads.register_memory(slot, {to_.data() + begin, static_cast<std::size_t>(length)});
  if (!done) {
    registers_ = false;
    notes_.push_back("memory is not registered with io_uring: " + done.error().message());
    return std::nullopt;
  }
  region = {number, true, 0};
  return slot;
}

Result<void> DirectCopy::submit(Piece piece) {
  piece.direct = piece.direct && direct_;
  std::uint64_t length = piece.range.length;
  stream::ReadRequest request;
  request.fd = fd_;
  if (piece.direct) {
    request.fd = file_->fd.get();
    request.alignment = file_->alignment;
    length = round_up(length, file_->alignment);
    piece.memory = registered(piece.range);
    used_direct_ = true;
  }
  request.id = next_id_++;
  request.offset = piece.range.offset;
  request.buffer = {to_.data() + piece.range.offset, static_cast<std::size_t>(length)};
  request.memory = piece.memory;
  TRY(lane_.reads.submit(request));
  if (piece.memory) ++regions_[*piece.memory].reads;
  in_flight_.emplace(request.id, piece);
  return {};
}

Result<std::uint64_t> DirectCopy::read_until(std::uint64_t end) {
  std::uint64_t bytes = 0;
  const std::size_t most = std::clamp<std::size_t>(lane_.reads.depth(), 1, kReads);
  while (!pieces_.empty() && pieces_.front().range.offset < end) {
    while (in_flight_.size() >= most)
      bytes += TRY(reap());
    const Piece piece = pieces_.front();
    pieces_.pop_front();
    TRY(submit(piece));
  }
  return bytes;
}

Result<std::uint64_t> DirectCopy::finish() {
  std::uint64_t bytes = TRY(read_until(size_));
  while (!in_flight_.empty() || !pieces_.empty()) {
    bytes += TRY(reap());
    bytes += TRY(read_until(size_));  // what was put back
  }
  return bytes;
}

Result<std::uint64_t> DirectCopy::reap() {
  std::uint64_t bytes = 0;
  const auto completions = TRY(lane_.reads.reap(kReapTimeout));
  if (!completions.empty()) lane_.beat();
  for (const stream::ReadCompletion& completion : completions)
    bytes += TRY(settle(completion));
  return bytes;
}

Result<std::uint64_t> DirectCopy::settle(const stream::ReadCompletion& completion) {
  const Piece piece = in_flight_.at(completion.id);
  in_flight_.erase(completion.id);
  if (piece.memory) --regions_[*piece.memory].reads;
  if (!completion.bytes) {
    Error error = completion.bytes.error();
    if (piece.direct && error.code == std::errc::invalid_argument) {
      // Some file systems let it be opened so, and refuse the read.
      give_up_direct(error.message());
      pieces_.push_front({piece.range, false});
      return 0;
    }
    error.context = "read at offset " + std::to_string(piece.range.offset) + ": " + error.context;
    return error;
  }
  const std::uint64_t got = std::min<std::uint64_t>(*completion.bytes, piece.range.length);
  if (got < piece.range.length) {
    return make_error(Errc::stale, "it ends at " + std::to_string(piece.range.offset + got));
  }
  return got;
}

void DirectCopy::give_up_direct(const std::string& why) {
  if (!std::exchange(direct_, false)) return;
  notes_.push_back("no direct I/O on this file: " + why + ", reading through the page cache");
  for (Piece& piece : pieces_)
    piece.direct = false;
}

void DirectCopy::leave_cold() {
  if (!used_direct_ && missing_.empty()) return;
  const auto resident = os::read_residency(fd_, size_).resident_bytes;
  if (resident && *resident <= resident_before_) return;
  if (used_direct_ && direct_) {
    notes_.emplace_back(
        "this file system caches what is read by O_DIRECT; its pages are given back");
  }
  for (const ByteRange& range : missing_) {
    [[maybe_unused]] const int ignored =
        ::posix_fadvise(fd_, static_cast<off_t>(range.offset), static_cast<off_t>(range.length),
                        POSIX_FADV_DONTNEED);
  }
}

}  // namespace andiron::tier
