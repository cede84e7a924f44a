// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/range.hpp"
#include "agent/base/result.hpp"
#include "agent/stream/engine.hpp"

namespace andiron::tier {

/// Brings the pages of a new tmpfs file in, zeroed by the kernel, on threads of its own and in
/// steps, ahead of those who read into them: zeroing takes a CPU as long as a fast disk takes to
/// read. The mapping outlives it. Its threads end with it, after the step that each is at.
/// Thread: the lane's.
class Prefault {
 public:
  /// A step: enough that starting one costs nothing, little enough to stop soon.
  static constexpr std::uint64_t kStep = 32ULL << 20;

  /// `ahead` bytes at most are brought in that nobody waited for yet: memory that a fill which
  /// meets the headroom would have taken in vain.
  Prefault(const MappedRegion& mapping, std::uint64_t ahead, unsigned threads);
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;
  ~Prefault();

  /// Blocks until all before `end` is there, beating the lane's heart. Errors: no_headroom when the
  /// kernel has no memory for it, cancelled, timeout.
  Result<void> wait_for(std::uint64_t end, const stream::LaneContext& lane,
                        const stream::TransferControl& control);

 private:
  void work() noexcept;
  std::optional<ByteRange> next();

  const MappedRegion& mapping_;
  const std::uint64_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0;            // by wait_for
  std::uint64_t next_ = 0;             // the next step's start
  std::set<std::uint64_t> under_way_;  // starts of steps
  std::optional<Error> error_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace andiron::tier
