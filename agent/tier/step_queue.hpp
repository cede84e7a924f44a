// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/tier/fill_shape.hpp"

namespace andiron::tier {

/// The steps of one file, handed out to the few threads that fill it: to readers first what is
/// missing, in order and with what to ask the kernel for ahead of it, then the rest; to mappers
/// only what is resident already. So page tables are filled while the disk is busy. Thread: any.
/// Blocks: only for the mutex, held for a few moves.
class StepQueue {
 public:
  /// `ahead`: the most bytes that are asked for and not done.
  StepQueue(std::vector<FillStep> steps, std::uint64_t ahead);

  enum class Role { reader, mapper };

  struct Work {
    std::size_t index = 0;
    FillStep step;
    std::vector<ByteRange> ahead;  // to be asked for first
  };
  /// Nothing when all is handed out, or after stop().
  std::optional<Work> take(Role role);
  void done(std::size_t index);
  /// Ends the handing out.
  void stop();
  /// The first reason stays.
  void stop(Error error);
  void stop_at_fault(std::size_t index);

  // For one thread, when no other works on it any more.
  std::optional<Error> take_error() { return std::exchange(error_, std::nullopt); }
  /// The first step that faulted.
  std::optional<std::size_t> take_fault() { return std::exchange(fault_, std::nullopt); }
  /// Makes take() begin anew, without the steps that are done.
  void restart();
  const FillStep& step(std::size_t index) const { return steps_.at(index); }
  std::size_t missing() const noexcept { return missing_; }
  std::size_t resident() const noexcept { return steps_.size() - missing_; }
  /// Those that are not done.
  std::vector<FillStep> rest() const;

 private:
  Work hand_out(std::size_t index);

  std::mutex mutex_;
  std::vector<FillStep> steps_;  // the missing ones first
  std::size_t missing_ = 0;
  std::vector<bool> done_;
  const std::uint64_t ahead_;
  std::size_t next_missing_ = 0;
  std::size_t next_resident_ = 0;
  std::size_t asked_ = 0;  // what is before it was asked for
  std::uint64_t in_flight_ = 0;
  bool stopped_ = false;
  std::optional<Error> error_;
  std::optional<std::size_t> fault_;
};

}  // namespace andiron::tier
