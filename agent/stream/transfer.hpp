// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/base/clock.hpp"
#include "agent/base/result.hpp"

namespace andiron::stream {

/// What the loop and the lanes of one transfer share: orders one way, counts the other.
/// Thread: every member from any thread, without locks. Shared by shared_ptr, since either side may
/// outlive the other; it holds atomics only.
class TransferControl {
 public:
  explicit TransferControl(std::optional<SteadyTime> deadline) : deadline_(deadline) {}

  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

  /// Asked by a lane between any two windows: cancelled or timeout, else nothing.
  Result<void> check(SteadyTime now) const;

  /// The loop asks lanes to wait (pressure) or go on.
  void set_paused(bool paused) noexcept { paused_.store(paused, std::memory_order_relaxed); }
  bool paused() const noexcept { return paused_.load(std::memory_order_relaxed); }

  /// Nobody waits for it: its reads are to be in nobody's way. Until somebody does.
  void set_background(bool background) noexcept {
    background_.store(background, std::memory_order_relaxed);
  }
  bool background() const noexcept { return background_.load(std::memory_order_relaxed); }

  void add_total(std::uint64_t bytes) noexcept {
    total_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void add_done(std::uint64_t bytes) noexcept { done_.fetch_add(bytes, std::memory_order_relaxed); }
  std::uint64_t total() const noexcept { return total_.load(std::memory_order_relaxed); }
  std::uint64_t done() const noexcept { return done_.load(std::memory_order_relaxed); }

 private:
  const std::optional<SteadyTime> deadline_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> paused_{false};
  std::atomic<bool> background_{false};
  std::atomic<std::uint64_t> total_{0};
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace andiron::stream
