// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/base/clock.hpp"

namespace andiron::core {

/// Whether background warming may read now. Its own reads raise the machine's io pressure, so the
/// figure while it reads says nothing about others: it listens before it talks, and pauses now and
/// then to listen again. Where the machine stalls although Andiron is quiet, somebody else needs
/// the disk or the memory, and warming waits; but never so long that it comes to a stop.
/// Pure but for its state; the caller turns the clock.
class PressureGate {
 public:
  /// Listening costs kListen in kTalk: 1.5 % of the rate.
  static constexpr std::chrono::milliseconds kTalk{10'000};
  static constexpr std::chrono::milliseconds kSettle{50};  // for the window under way to end
  static constexpr std::chrono::milliseconds kListen{100};
  static constexpr std::chrono::milliseconds kWait{2'000};
  static constexpr std::chrono::milliseconds kLongestWait{30'000};
  /// Share of time that tasks stall while Andiron is quiet.
  static constexpr double kHigh = 0.25;

  /// The next state, from PSI's "some" totals of io and memory in microseconds (nullopt where the
  /// kernel has no PSI: then it never pauses). True: background jobs pause.
  bool tick(SteadyTime now, std::optional<std::uint64_t> stall_us);
  /// No background job runs.
  void idle() noexcept { phase_ = Phase::idle; }

 private:
  enum class Phase { idle, settle, listen, talk, wait };
  bool enter(Phase phase, SteadyTime now);

  Phase phase_ = Phase::idle;
  SteadyTime since_;
  SteadyTime quiet_since_;  // when the pause began that goes on now
  std::uint64_t stall_at_listen_ = 0;
};

}  // namespace andiron::core
