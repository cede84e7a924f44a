// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "agent/base/mapped_region.hpp"
#include "agent/base/result.hpp"
#include "agent/tier/fill_run.hpp"
#include "agent/tier/fill_shape.hpp"
#include "agent/tier/page_calls.hpp"
#include "agent/tier/step_queue.hpp"

namespace andiron::tier {

/// The lane's thread and a few helpers, which populate one file's windows side by side: a device
/// wants more in flight than one thread that waits for pages keeps there, and threads that wait
/// cost nothing. Others map what is resident already meanwhile, which takes a CPU and no disk.
/// Helpers live for one run() at most.
/// Thread: the lane's.
class PageCrew {
 public:
  /// `holder` gets what came in mapped; empty for none. All must outlive the crew.
  PageCrew(const FillRun& run, FillAccount& account, const FillShape& shape, int fd,
           const MappedRegion& holder)
      : run_(run), account_(account), shape_(shape), fd_(fd), holder_(holder) {}

  /// Maps the file for filling; not needed where nothing is missing. Errors: as mmap's.
  Result<void> prepare(std::uint64_t size);
  /// Whether the kernel reads huge folios through such a mapping, found by populating one page of
  /// `range`, which is missing. False where it cannot be known.
  bool reads_huge(ByteRange range) const;
  /// Works until the queue gives nothing more, which says why.
  void run(StepQueue& queue);
  /// The kernel has no MADV_POPULATE_READ, or not for this file.
  bool unsupported() const noexcept { return unsupported_.load(); }

 private:
  using Role = StepQueue::Role;
  void work(StepQueue& queue, Role role, int fd, const MappedRegion& map) noexcept;
  void help_reading(StepQueue& queue) noexcept;
  Result<Populated> bring(const StepQueue::Work& work, int fd, const MappedRegion& map) const;

  const FillRun& run_;
  FillAccount& account_;
  const FillShape& shape_;
  const int fd_;
  const MappedRegion& holder_;
  MappedRegion map_;
  std::atomic<bool> unsupported_{false};
};

}  // namespace andiron::tier
