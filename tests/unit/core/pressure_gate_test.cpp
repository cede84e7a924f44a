// SPDX-License-Identifier: MIT
#include "agent/core/pressure_gate.hpp"

#include <gtest/gtest.h>

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// Turns the clock in the agent's steps; `share` is how much others stall while we are quiet, and
/// our own reads stall all the time.
struct Machine {
  PressureGate gate;
  SteadyTime now{1h};
  double stall = 0;
  double share = 0;
  bool paused = false;
  std::chrono::milliseconds talked{0};
  std::chrono::milliseconds quiet{0};

  void run(std::chrono::milliseconds duration) {
    for (std::chrono::milliseconds done{0}; done < duration; done += 50ms) {
      paused = gate.tick(now, static_cast<std::uint64_t>(stall));
      (paused ? quiet : talked) += 50ms;
      stall += 50e3 * (paused ? share : 1.0);
      now += 50ms;
    }
  }
};

TEST(PressureGate, OwnReadsDoNotStopIt) {
  Machine machine;
  machine.run(5min);
  EXPECT_LT(machine.quiet * 40, machine.talked);  // about 1.5 %
}

TEST(PressureGate, WaitsWhileOthersStallAndGoesOnAfter) {
  Machine machine;
  machine.share = 0.9;
  machine.run(20s);
  EXPECT_EQ(machine.talked, 0ms);
  machine.share = 0;
  machine.run(5s);
  EXPECT_GT(machine.talked, 0ms);
}

TEST(PressureGate, NeverComesToAStop) {
  Machine machine;
  machine.share = 0.9;
  machine.run(10min);
  EXPECT_GT(machine.talked, 1min);
  EXPECT_GT(machine.quiet, machine.talked);
}

TEST(PressureGate, TalksWhereTheKernelCannotTell) {
  PressureGate gate;
  EXPECT_FALSE(gate.tick(SteadyTime(1h), std::nullopt));
}

}  // namespace
}  // namespace andiron::core
