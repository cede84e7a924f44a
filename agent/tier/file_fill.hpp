// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/range.hpp"
#include "agent/base/result.hpp"
#include "agent/tier/fill_run.hpp"
#include "agent/tier/fill_shape.hpp"
#include "agent/tier/page_cache.hpp"
#include "agent/tier/page_crew.hpp"
#include "agent/tier/step_queue.hpp"

namespace andiron::tier {

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
  std::uint64_t mapped_unlocked() const noexcept { return account_.mapped_unlocked(); }

 private:
  Result<void> locate();
  Result<void> place();
  Result<void> bring_in();
  FillShape proven(const FillShape& shape, const PageCrew& crew,
                   const std::vector<ByteRange>& missing) const;
  Result<void> read_steps(const std::vector<FillStep>& steps);
  Result<void> populate_steps(PageCrew& crew, std::vector<FillStep> steps, std::uint64_t ahead);
  Result<void> mend(const FillStep& step);
  Result<void> fill_holes(PageCrew& crew, const FillShape& shape);
  void see_charges();
  void measure();
  Result<void> verify();
  void find_missing();
  void note(const std::string& text);

  FillRun& run_;
  const FillFile& file_;
  FillAccount account_;
  bool holds_ = false;       // `mapped` or firmer
  bool in_memory_ = false;   // tmpfs: there is nothing to read
  bool measured_ = false;    // held_.resident_bytes is of now
  bool cannot_map_ = false;  // without touching, which would be SIGBUS after a truncation
  std::vector<ByteRange> missing_;
  std::uint64_t resident_before_ = 0;
  HeldFile held_;
};

}  // namespace andiron::tier
