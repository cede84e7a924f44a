// SPDX-License-Identifier: MIT
#include "agent/base/mailbox.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace andiron {
namespace {

TEST(Mailbox, CarriesEveryValueInOrderFromEachThread) {
  auto mailbox = Mailbox<int>::create();
  ASSERT_TRUE(mailbox.has_value());
  constexpr int kEach = 1000;
  const auto push_from = [&](int first) {
    for (int i = 0; i < kEach; ++i)
      mailbox->push(first + i);
  };
  std::thread one(push_from, 0);
  std::thread two(push_from, kEach);
  std::vector<int> seen;
  while (seen.size() < 2 * kEach) {
    pollfd entry{mailbox->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 5000), 1);
    for (const int value : mailbox->drain())
      seen.push_back(value);
  }
  one.join();
  two.join();
  int last_low = -1;
  int last_high = kEach - 1;
  for (const int value : seen) {
    int& last = value < kEach ? last_low : last_high;
    EXPECT_EQ(value, last + 1);
    last = value;
  }
  EXPECT_TRUE(mailbox->drain().empty());
}

TEST(Mailbox, DropsWhatComesAfterClose) {
  auto mailbox = Mailbox<int>::create();
  mailbox->close();
  mailbox->push(1);
  EXPECT_TRUE(mailbox->drain().empty());
}

}  // namespace
}  // namespace andiron
