// SPDX-License-Identifier: MIT
#include "agent/api/try_limiter.hpp"

#include <gtest/gtest.h>

#include <string>

namespace andiron::api {
namespace {

using std::chrono::seconds;

class TryLimiterTest : public ::testing::Test {
 protected:
  static IpAddress peer(const std::string& text) { return *IpAddress::parse(text); }
  void fail(const std::string& who, std::size_t times) {
    for (std::size_t i = 0; i < times; ++i)
      limiter_.failed(peer(who), now_);
  }
  long wait(const std::string& who) const { return limiter_.wait(peer(who), now_).count(); }

  TryLimiter limiter_;
  SteadyTime now_{std::chrono::hours(1)};
};

TEST_F(TryLimiterTest, TenAMinute) {
  for (std::size_t i = 1; i < TryLimiter::kTries; ++i) {
    EXPECT_FALSE(limiter_.failed(peer("10.0.0.1"), now_));
    EXPECT_EQ(wait("10.0.0.1"), 0);
  }
  now_ += seconds(20);
  EXPECT_TRUE(limiter_.failed(peer("10.0.0.1"), now_));
  EXPECT_EQ(wait("10.0.0.1"), 40);
  now_ += std::chrono::milliseconds(39'001);
  EXPECT_EQ(wait("10.0.0.1"), 1);
  now_ += seconds(1);
  EXPECT_EQ(wait("10.0.0.1"), 0);
  EXPECT_FALSE(limiter_.failed(peer("10.0.0.1"), now_));  // of a new minute
  EXPECT_EQ(wait("10.0.0.1"), 0);
}

TEST_F(TryLimiterTest, FewOverALongTimeAreNone) {
  for (int i = 0; i < 100; ++i) {
    fail("10.0.0.1", TryLimiter::kTries - 1);
    now_ += TryLimiter::kWindow;
  }
  EXPECT_EQ(wait("10.0.0.1"), 0);
}

TEST_F(TryLimiterTest, OthersAreNotConcerned) {
  fail("10.0.0.1", 100);
  EXPECT_GT(wait("10.0.0.1"), 0);
  EXPECT_EQ(wait("10.0.0.2"), 0);
  fail("2001:db8::1", 5);
  fail("2001:db8::2", 5);  // whoever has one of these has them all
  EXPECT_GT(wait("2001:db8::3"), 0);
}

TEST_F(TryLimiterTest, IsBounded) {
  for (int i = 0; i < 10'000; ++i) {
    fail("10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256), 1);
    now_ += std::chrono::milliseconds(1);
    ASSERT_LE(limiter_.networks(), TryLimiter::kMaxNetworks);
  }
  EXPECT_EQ(limiter_.networks(), TryLimiter::kMaxNetworks);
  now_ += TryLimiter::kWindow;
  fail("10.1.1.1", 1);
  EXPECT_EQ(limiter_.networks(), 1U);
}

}  // namespace
}  // namespace andiron::api
