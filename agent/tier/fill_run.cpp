// SPDX-License-Identifier: MIT
#include "agent/tier/fill_run.hpp"

#include <algorithm>
#include <chrono>

#include "agent/base/units.hpp"
#include "agent/os/memory.hpp"

namespace andiron::tier {
namespace {

/// While paused, how long one look at the control lasts: well below what anyone notices.
constexpr std::chrono::milliseconds kPauseSlice{20};
/// Between two looks at the memory: some 25 ms of a fast disk, where the headroom is gigabytes.
constexpr std::uint64_t kLookEvery = 64 * kMiB;

}  // namespace

Result<void> pace(const stream::LaneContext& lane, const stream::TransferControl& control,
                  std::uint64_t bytes) {
  lane.beat();
  TRY(control.check(lane.clock.now()));
  while (control.paused())
    TRY(lane.wait(control, kPauseSlice));
  lane.take_class(control);
  if (bytes == 0) return {};
  const auto wait = lane.limiter.take(bytes, lane.clock.now());
  if (wait.count() > 0) TRY(lane.wait(control, wait));
  return {};
}

Result<void> check_available(std::uint64_t min_available, std::uint64_t more) {
  if (min_available == 0) return {};
  const Result<os::MemoryView> memory = os::read_memory();
  if (!memory) return {};  // not known: the kernel itself says ENOMEM before it is too late
  const std::uint64_t left = memory->available - std::min(memory->available, more);
  if (left >= min_available) return {};
  return make_error(Errc::no_headroom,
                    format_bytes(left) + " left, " + format_bytes(min_available) + " to be kept");
}

Result<void> check_identity(int fd, const os::FileIdentity& identity) {
  const os::FileInfo info = TRY(os::stat_fd(fd));
  if (info.identity == identity) return {};
  if (info.identity.dev != identity.dev || info.identity.ino != identity.ino) {
    return make_error(Errc::stale, "another file has its place");
  }
  if (info.identity.size != identity.size) {
    return make_error(Errc::stale, "it is " + std::to_string(info.identity.size) + " bytes, was " +
                                       std::to_string(identity.size));
  }
  return make_error(Errc::stale, "it was written to, or its metadata changed");
}

Result<void> FillRun::pace(std::uint64_t bytes) const { return tier::pace(lane, control, bytes); }

Result<void> FillRun::check_headroom(std::uint64_t mapped) const {
  return check_available(request.min_available, mapped_unlocked + mapped);
}

void FillAccount::add_read(std::uint64_t bytes) noexcept {
  std::uint64_t before = read_.load();
  std::uint64_t counted = 0;
  do {
    counted = std::min(bytes, missing_ - before);
  } while (!read_.compare_exchange_weak(before, before + counted));
  run_.control.add_done(counted);
}

void FillAccount::add_mapped(ByteRange range) noexcept {
  const std::uint64_t unlocked_from = std::clamp(locked_until_, range.offset, range.end());
  mapped_.fetch_add(range.end() - unlocked_from);
}

std::uint64_t FillAccount::mapped_unlocked() const noexcept {
  return std::min(mapped_.load(),
                  size_ - std::min(size_, locked_until_));  // a hole is mapped twice
}

Result<void> FillAccount::after(ByteRange range) {
  if (since_look_.fetch_add(range.length) + range.length < kLookEvery) return {};
  since_look_.store(0);
  return run_.check_headroom(mapped_unlocked());
}

}  // namespace andiron::tier
