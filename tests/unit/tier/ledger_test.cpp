// SPDX-License-Identifier: MIT
#include "agent/tier/ledger.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace andiron::tier {
namespace {

TEST(Ledger, GivesWhatIsLeftAndNoMore) {
  Ledger ledger(100);
  Result<Reservation> first = ledger.reserve(60);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bytes(), 60U);
  EXPECT_EQ(ledger.used(), 60U);
  const Result<Reservation> second = ledger.reserve(41);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().errc(), Errc::no_budget);
  EXPECT_NE(second.error().message().find("1 B missing"), std::string::npos)
      << second.error().message();
  EXPECT_EQ(ledger.used(), 60U);
  EXPECT_TRUE(ledger.reserve(40));
}

TEST(Ledger, WhatDrainsIsUsed) {
  Ledger ledger(100);
  ledger.set_draining(70);
  EXPECT_EQ(ledger.used(), 70U);
  const Result<Reservation> refused = ledger.reserve(31);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("70 B are given up"), std::string::npos)
      << refused.error().message();
  const Result<Reservation> held = ledger.reserve(30);
  EXPECT_TRUE(held);
  ledger.set_draining(0);
  EXPECT_EQ(ledger.used(), 30U);
}

TEST(Ledger, TakesBytesBackWhenAReservationEnds) {
  Ledger ledger(100);
  {
    const Result<Reservation> held = ledger.reserve(100);
    ASSERT_TRUE(held);
    EXPECT_EQ(ledger.used(), 100U);
  }
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(Ledger, AReservationIsReleasedOnce) {
  Ledger ledger(100);
  Result<Reservation> held = ledger.reserve(10);
  ASSERT_TRUE(held);
  held->release();
  held->release();
  EXPECT_EQ(held->bytes(), 0U);
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(Ledger, MovingAReservationMovesItsBytes) {
  Ledger ledger(100);
  Result<Reservation> first = ledger.reserve(10);
  Result<Reservation> second = ledger.reserve(20);
  ASSERT_TRUE(first && second);
  Reservation moved(std::move(*first));
  EXPECT_EQ(ledger.used(), 30U);
  moved = std::move(*second);  // Lets its own ten go.
  EXPECT_EQ(moved.bytes(), 20U);
  EXPECT_EQ(ledger.used(), 20U);
  Reservation& same = moved;
  moved = std::move(same);
  EXPECT_EQ(moved.bytes(), 20U);
  EXPECT_EQ(ledger.used(), 20U);
  moved.release();
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(Ledger, ASmallerBudgetTakesNothingBack) {
  Ledger ledger(100);
  std::optional<Reservation> held = std::move(*ledger.reserve(80));
  ledger.set_budget(50);
  EXPECT_EQ(ledger.used(), 80U);
  EXPECT_FALSE(ledger.reserve(1));
  EXPECT_TRUE(ledger.reserve(0));
  held.reset();
  EXPECT_TRUE(ledger.reserve(50));
}

TEST(Ledger, HugeWishesDoNotOverflow) {
  Ledger ledger(100);
  const Result<Reservation> held = ledger.reserve(10);
  ASSERT_TRUE(held);
  EXPECT_FALSE(ledger.reserve(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_FALSE(ledger.reserve(std::numeric_limits<std::uint64_t>::max() - 5));
  EXPECT_EQ(ledger.used(), 10U);
}

}  // namespace
}  // namespace andiron::tier
