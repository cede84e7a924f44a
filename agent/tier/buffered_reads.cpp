// SPDX-License-Identifier: MIT
#include "agent/tier/buffered_reads.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "agent/base/units.hpp"

namespace andiron::tier {
namespace {

/// The largest read: past 1 MiB nothing got faster where it was measured.
constexpr std::uint64_t kReadBytes = kMiB;
/// Reads at once: with the kernel's own read-ahead below them, four keep a device busy.
constexpr std::size_t kReads = 4;
/// How long one wait for a completion takes; a device that needs longer is waited for again.
constexpr std::chrono::milliseconds kReapTimeout{1000};
/// For reads that a failed range left in flight; past it their device is taken for dead.
constexpr std::chrono::milliseconds kCancelWait{5000};

}  // namespace

Result<void> BufferedReads::read(int fd, ByteRange range) {
  if (stuck_) return make_error(Errc::io_error, "earlier reads are still in the kernel");
  if (!bounce_) {
    const std::size_t depth = std::clamp<std::size_t>(backend_.depth(), 1, kReads);
    bounce_ = TRY(MappedRegion::map_anonymous(depth * kReadBytes));
    slots_.resize(depth);
  }
  Result<void> status{};
  for (std::uint64_t slot = 0; slot < slots_.size() && status && range.length > 0; ++slot)
    status = submit_next(fd, slot, range);
  while (status && backend_.in_flight() > 0)
    status = reap(fd, range);
  if (!status) drain();
  return status;
}

Result<void> BufferedReads::submit_next(int fd, std::uint64_t slot, ByteRange& rest) {
  const std::uint64_t length = std::min(rest.length, kReadBytes);
  slots_[slot] = {rest.offset, length};
  const std::span<std::byte> buffer(bounce_.data() + slot * kReadBytes, length);
  TRY(backend_.submit({slot, fd, rest.offset, buffer, 1}));
  rest = {rest.offset + length, rest.length - length};
  return {};
}

/// Reaps once and sends the slots that came back out again.
Result<void> BufferedReads::reap(int fd, ByteRange& rest) {
  const std::vector<stream::ReadCompletion> completions = TRY(backend_.reap(kReapTimeout));
  for (const stream::ReadCompletion& completion : completions)
    TRY(settle(completion));
  for (const stream::ReadCompletion& completion : completions) {
    if (rest.length > 0) TRY(submit_next(fd, completion.id, rest));
  }
  return {};
}

Result<void> BufferedReads::settle(const stream::ReadCompletion& completion) {
  const Slot& slot = slots_.at(completion.id);
  if (!completion.bytes) {
    Error error = completion.bytes.error();
    error.context = "read at offset " + std::to_string(slot.offset) +
                    (error.context.empty() ? "" : ": " + error.context);
    return error;
  }
  if (*completion.bytes < slot.length) {
    return make_error(Errc::stale, "it ends at " + std::to_string(slot.offset + *completion.bytes));
  }
  return {};
}

/// After an error: nothing may be in flight when the next range, or file, is begun.
void BufferedReads::drain() {
  if (!backend_.cancel_all(kCancelWait)) stuck_ = true;
}

}  // namespace andiron::tier
