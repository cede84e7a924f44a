// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "agent/base/clock.hpp"
#include "agent/base/range.hpp"
#include "agent/base/result.hpp"
#include "agent/stream/engine.hpp"
#include "agent/stream/transfer.hpp"
#include "agent/tier/buffered_reads.hpp"
#include "agent/tier/page_cache.hpp"

namespace andiron::tier {

/// Adds the time until it ends to one of the stages.
class StageTimer {
 public:
  StageTimer(const Clock& clock, std::chrono::nanoseconds& stage)
      : clock_(clock), stage_(stage), begin_(clock.now()) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() { stage_ += clock_.now() - begin_; }

 private:
  const Clock& clock_;
  std::chrono::nanoseconds& stage_;
  SteadyTime begin_;
};

/// After these it makes no sense, or is not allowed, to go on with the next file.
inline bool ends_all(Errc code) noexcept {
  return code == Errc::cancelled || code == Errc::timeout || code == Errc::no_headroom;
}

/// Before `bytes` are read: waits while the loop wants it (pressure) and for the rate limit.
/// Errors: cancelled, timeout.
Result<void> pace(const stream::LaneContext& lane, const stream::TransferControl& control,
                  std::uint64_t bytes);
/// Errors: no_headroom when less than `min_available` would be left of this machine's memory with
/// `more` bytes of it taken. 0 is no bound.
Result<void> check_available(std::uint64_t min_available, std::uint64_t more);
/// Errors: stale, with what is different about the open file.
Result<void> check_identity(int fd, const os::FileIdentity& identity);

/// What the files of one request share while it runs. What it refers to outlives it.
/// Thread: the lane's, but pace() and check_headroom(): any.
struct FillRun {
  const FillRequest& request;
  const stream::LaneContext& lane;
  stream::TransferControl& control;
  BufferedReads& reads;
  FillOutcome& outcome;
  std::uint64_t mapped_unlocked = 0;  // bytes that earlier files of this request keep so

  /// Before `bytes` are read: waits while the loop wants it (pressure) and for the rate limit.
  /// Errors: cancelled, timeout.
  Result<void> pace(std::uint64_t bytes) const;
  /// Errors: no_headroom when less than FillRequest::min_available would be left with `mapped`
  /// more bytes kept.
  Result<void> check_headroom(std::uint64_t mapped) const;
};

/// What became of one file's bytes so far. Thread: any.
class FillAccount {
 public:
  /// `missing` bytes are to be read; those before `locked_until` are under mlock once mapped.
  FillAccount(const FillRun& run, std::uint64_t size) : run_(run), size_(size) {}
  void set_missing(std::uint64_t bytes) noexcept { missing_ = bytes; }
  void set_locked_until(std::uint64_t offset) noexcept { locked_until_ = offset; }

  /// Counts no more than was missing: swallowed gaps and second rounds are read, and not brought
  /// in. Tells the control.
  void add_read(std::uint64_t bytes) noexcept;
  void add_mapped(ByteRange range) noexcept;
  /// Looks at the headroom every 64 MiB. Errors: no_headroom.
  Result<void> after(ByteRange range);

  std::uint64_t read() const noexcept { return read_.load(); }
  std::uint64_t mapped_unlocked() const noexcept;
  std::uint64_t locked_until() const noexcept { return locked_until_; }

 private:
  const FillRun& run_;
  const std::uint64_t size_;
  std::uint64_t missing_ = 0;
  std::uint64_t locked_until_ = 0;
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> mapped_{0};
  std::atomic<std::uint64_t> since_look_{0};
};

}  // namespace andiron::tier
