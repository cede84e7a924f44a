// SPDX-License-Identifier: MIT
#include "agent/stream/rate_limiter.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "agent/base/units.hpp"
#include "tests/support/manual_clock.hpp"

namespace andiron::stream {
namespace {

using namespace std::chrono_literals;

// Sums of doubles: a microsecond is far below what a wait means.
void expect_near(std::chrono::nanoseconds got, std::chrono::nanoseconds wanted) {
  EXPECT_NEAR(static_cast<double>(got.count()), static_cast<double>(wanted.count()), 1000.0);
}

TEST(RateLimiter, WithoutARateNobodyWaits) {
  RateLimiter limiter(0);
  const testing::ManualClock clock;
  EXPECT_EQ(limiter.take(kGiB, clock.now()), 0ns);
  EXPECT_EQ(limiter.take(kGiB, clock.now()), 0ns);
}

TEST(RateLimiter, EachWaitsUntilWhatWasTakenBeforeIsPaidFor) {
  RateLimiter limiter(kMiB);
  testing::ManualClock clock;
  expect_near(limiter.take(2 * kMiB, clock.now()), 0s);
  expect_near(limiter.take(kMiB / 2, clock.now()), 2s);
  expect_near(limiter.take(kMiB, clock.now()), 2500ms);
  clock.advance(1500ms);
  expect_near(limiter.take(kMiB, clock.now()), 2s);
}

TEST(RateLimiter, APauseSavesNothingUp) {
  RateLimiter limiter(kMiB);
  testing::ManualClock clock;
  limiter.take(kMiB, clock.now());
  clock.advance(1h);
  expect_near(limiter.take(4 * kMiB, clock.now()), 0s);
  expect_near(limiter.take(kMiB, clock.now()), 4s);
}

TEST(RateLimiter, WhatIsOwedIsPaidAtTheNewRate) {
  RateLimiter limiter(kMiB);
  const testing::ManualClock clock;
  limiter.take(8 * kMiB, clock.now());
  limiter.set_rate(4 * kMiB);
  expect_near(limiter.take(kMiB, clock.now()), 2s);
  limiter.set_rate(0);
  EXPECT_EQ(limiter.take(kMiB, clock.now()), 0ns);
  limiter.set_rate(1);
  EXPECT_EQ(limiter.take(kMiB, clock.now()), 0ns) << "a lifted limit forgives";
}

TEST(RateLimiter, HugeDebtsAreBoundedAndDoNotOverflow) {
  RateLimiter limiter(1);
  const testing::ManualClock clock;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  limiter.take(kMost, clock.now());
  limiter.take(kMost, clock.now());
  EXPECT_EQ(limiter.take(kMost, clock.now()), RateLimiter::kLongestWait);
}

TEST(RateLimiter, AClockReadEarlierThanAnothersPaysNothingBackTwice) {
  RateLimiter limiter(kMiB);
  testing::ManualClock clock;
  const SteadyTime early = clock.now();
  clock.advance(1s);
  limiter.take(4 * kMiB, clock.now());
  expect_near(limiter.take(0, early), 4s);
  expect_near(limiter.take(0, clock.now()), 4s);
}

TEST(RateLimiter, LanesShareOneRate) {
  RateLimiter limiter(kMiB);
  const testing::ManualClock clock;
  std::vector<std::thread> lanes;
  for (int i = 0; i < 4; ++i) {
    lanes.emplace_back([&] {
      for (int k = 0; k < 256; ++k)
        limiter.take(kKiB, clock.now());
    });
  }
  for (std::thread& lane : lanes)
    lane.join();
  expect_near(limiter.take(0, clock.now()), 1s);
}

}  // namespace
}  // namespace andiron::stream
