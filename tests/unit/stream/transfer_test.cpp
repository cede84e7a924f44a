// SPDX-License-Identifier: MIT
#include "agent/stream/transfer.hpp"

#include <gtest/gtest.h>

#include "agent/stream/engine.hpp"
#include "tests/support/manual_clock.hpp"

namespace andiron::stream {
namespace {

using namespace std::chrono_literals;

TEST(TransferControl, ADeadlineIsATimeoutFromItsMomentOn) {
  testing::ManualClock clock;
  const TransferControl control(clock.now() + 1s);
  EXPECT_TRUE(control.check(clock.now()));
  clock.advance(1s);
  const Result<void> late = control.check(clock.now());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().errc(), Errc::timeout);
}

TEST(TransferControl, WithoutADeadlineOnlyACancelEndsIt) {
  const testing::ManualClock clock;
  TransferControl control(std::nullopt);
  EXPECT_TRUE(control.check(SteadyTime::max()));
  control.cancel();
  EXPECT_EQ(control.check(clock.now()).error().errc(), Errc::cancelled);
}

TEST(TransferControl, ACancelIsToldBeforeATimeout) {
  TransferControl control(SteadyTime::min());
  control.cancel();
  EXPECT_EQ(control.check(SteadyTime::max()).error().errc(), Errc::cancelled);
}

TEST(Heartbeat, SilenceGrowsFromTheLastBeatAndIsNothingAtRest) {
  testing::ManualClock clock;
  Heartbeat heart;
  EXPECT_EQ(heart.silent_for(clock.now()), 0ms);
  heart.beat(clock.now());
  clock.advance(3s);
  EXPECT_EQ(heart.silent_for(clock.now()), 3s);
  heart.beat(clock.now());
  EXPECT_EQ(heart.silent_for(clock.now()), 0ms);
  EXPECT_EQ(heart.silent_for(clock.now() - 1s), 0ms) << "a clock read before the beat";
  clock.advance(1s);
  heart.rest();
  EXPECT_EQ(heart.silent_for(clock.now()), 0ms);
}

}  // namespace
}  // namespace andiron::stream
