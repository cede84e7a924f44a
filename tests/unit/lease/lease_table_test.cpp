// SPDX-License-Identifier: MIT
#include "agent/lease/lease_table.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace andiron::lease {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kAlice = 1000;
constexpr uid_t kBob = 1001;

Lease lease_of(HolderId holder, uid_t uid, const std::string& model = "m") {
  Lease lease;
  lease.holder = holder;
  lease.uid = uid;
  lease.model = model;
  return lease;
}

TEST(LeaseTable, NumbersItsLeasesAndNeverAgainTheSame) {
  LeaseTable table({});
  EXPECT_EQ(table.grant(lease_of(7, kAlice)).value()->id, 1U);
  ASSERT_TRUE(table.end(7));
  EXPECT_EQ(table.grant(lease_of(7, kAlice)).value()->id, 2U);
  EXPECT_EQ(table.size(), 1U);
}

TEST(LeaseTable, GivesAConnectionOneLease) {
  LeaseTable table({});
  ASSERT_TRUE(table.grant(lease_of(1, kAlice)));
  const auto second = table.grant(lease_of(1, kAlice, "other"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().errc(), Errc::bad_request);
  EXPECT_EQ(table.count("m"), 1U);
  EXPECT_EQ(table.count("other"), 0U);
}

TEST(LeaseTable, BoundsEachUserButRootAndAll) {
  LeaseTable table({6, 2});
  ASSERT_TRUE(table.grant(lease_of(1, kAlice)));
  ASSERT_TRUE(table.grant(lease_of(2, kAlice)));
  const auto third = table.grant(lease_of(3, kAlice));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().errc(), Errc::unavailable);
  EXPECT_TRUE(table.grant(lease_of(3, kBob)));
  EXPECT_TRUE(table.grant(lease_of(4, 0)));
  EXPECT_TRUE(table.grant(lease_of(5, 0)));
  EXPECT_TRUE(table.grant(lease_of(6, 0)));
  EXPECT_FALSE(table.grant(lease_of(7, 0)));
  // What ends makes room.
  EXPECT_TRUE(table.end(1));
  EXPECT_TRUE(table.grant(lease_of(7, kAlice)));
}

TEST(LeaseTable, EndsOnlyWhatIsThere) {
  LeaseTable table({});
  EXPECT_FALSE(table.end(1));
  ASSERT_TRUE(table.grant(lease_of(1, kAlice)));
  EXPECT_EQ(table.end(1).value().model, "m");
  EXPECT_FALSE(table.end(1));
}

TEST(LeaseTable, RevokesAModelsLeasesOnce) {
  LeaseTable table({});
  ASSERT_TRUE(table.grant(lease_of(1, kAlice)));
  ASSERT_TRUE(table.grant(lease_of(2, kBob)));
  ASSERT_TRUE(table.grant(lease_of(3, kBob, "other")));
  const SteadyTime by = SteadyTime() + 5s;
  EXPECT_EQ(table.revoke("m", by).size(), 2U);
  EXPECT_TRUE(table.revoke("m", by + 1s).empty());
  // Asked to close is not closed.
  EXPECT_EQ(table.count("m"), 2U);
}

TEST(LeaseTable, SaysOnceWhoDoesNotClose) {
  LeaseTable table({});
  ASSERT_TRUE(table.grant(lease_of(1, kAlice)));
  ASSERT_TRUE(table.grant(lease_of(2, kAlice)));
  const SteadyTime by = SteadyTime() + 5s;
  EXPECT_TRUE(table.fall_due(by + 1h).empty());  // nobody was asked to
  static_cast<void>(table.revoke("m", by));
  ASSERT_TRUE(table.end(2));
  EXPECT_TRUE(table.fall_due(by - 1ns).empty());
  const auto due = table.fall_due(by);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].holder, 1U);
  EXPECT_TRUE(table.fall_due(by + 1h).empty());
}

}  // namespace
}  // namespace andiron::lease
