// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/stream/engine.hpp"
#include "agent/stream/transfer.hpp"
#include "agent/tier/buffered_reads.hpp"
#include "agent/tier/fill_shape.hpp"
#include "agent/tier/page_cache.hpp"

namespace andiron::tier {

/// What the files of one request share while it runs. References outlive the run.
struct FillRun {
  const FillRequest& request;
  const stream::LaneContext& lane;
  stream::TransferControl& control;
  BufferedReads& reads;
  FillOutcome& outcome;
  std::uint64_t mapped_unlocked = 0;  // bytes that earlier files of this request keep so

  /// Before `bytes` are read: waits while the loop wants it (pressure) and for the rate limit.
  /// Errors: cancelled, timeout.
  Result<void> pace(std::uint64_t bytes);
  /// Errors: no_headroom when less than FillRequest::min_available would be left with `mapped`
  /// more bytes kept.
  Result<void> check_headroom(std::uint64_t mapped) const;
};

/// Brings one file in and holds it; see make_fill_task for the order of things.
/// Thread: the lane's. Used once.
class FileFill {
 public:
  FileFill(FillRun& run, const FillFile& file);

  /// Errors: see FillOutcome::error, each naming the file.
  Result<void> fill();
  /// What is held after a fill() that went well, or ended with no_headroom.
  HeldFile take() &&;
  /// Bytes mapped and not locked.
  std::uint64_t mapped_unlocked() const noexcept { return mapped_; }

 private:
  Result<void> locate();
  Result<void> place();
  Result<void> bring_in();
  Result<void> run_steps(const std::vector<FillStep>& steps, FillMethod method);
  Result<void> do_step(const FillStep& step, FillMethod method);
  Result<void> populate_missing(ByteRange range);
  Result<void> explain_fault(ByteRange range);
  Result<void> map_into_holder(ByteRange range);
  Result<void> fill_holes();
  Result<void> verify();
  Result<void> check_identity() const;
  std::vector<ByteRange> find_missing();
  void progress(std::uint64_t bytes);
  void note(const std::string& text);

  FillRun& run_;
  const FillFile& file_;
  FillShape shape_;
  bool holds_ = false;        // `mapped` or firmer
  bool can_populate_ = true;  // until the kernel says otherwise
  bool in_memory_ = false;    // tmpfs
  std::uint64_t resident_before_ = 0;
  std::uint64_t missing_ = 0;       // bytes, when it was begun
  std::uint64_t reported_ = 0;      // of missing_, to the control
  std::uint64_t mapped_ = 0;        // bytes mapped into the holder and not locked
  std::uint64_t locked_until_ = 0;  // bytes from the start that are under mlock
  std::uint64_t since_headroom_ = 0;
  MappedRegion fill_map_;  // pages come in through it; advised as the holder must never be
  HeldFile held_;
};

}  // namespace andiron::tier
