// SPDX-License-Identifier: MIT
#include "agent/core/event_log.hpp"

#include <gtest/gtest.h>

namespace andiron::core {
namespace {

using std::chrono::seconds;

probe::Event at(int second) {
  probe::Event event;
  event.time = WallTime(seconds(second));
  return event;
}

TEST(EventLog, NumbersAndFindsBySeqAndTime) {
  EventLog log;
  for (int second : {10, 20, 30})
    log.append(at(second));
  EXPECT_EQ(log.last(), 3u);
  ASSERT_EQ(log.after(1).size(), 2u);
  EXPECT_EQ(log.after(1)[0]->seq, 2u);
  EXPECT_EQ(log.last_before(WallTime(seconds(20))), 1u);
  EXPECT_EQ(log.last_before(WallTime(seconds(21))), 2u);
  EXPECT_EQ(log.last_before(WallTime(seconds(1))), 0u);
}

TEST(EventLog, ForgetsTheOldest) {
  EventLog log;
  for (std::size_t i = 0; i < EventLog::kCapacity + 10; ++i)
    log.append(at(1));
  const auto all = log.after(0);
  EXPECT_EQ(all.size(), EventLog::kCapacity);
  EXPECT_EQ(all.front()->seq, 11u);
  EXPECT_EQ(log.last_before(WallTime(seconds(0))), 10u);
}

TEST(EventLog, ForgetsTheOldestWhereNamesAreLong) {
  EventLog log;
  for (int i = 0; i < 1000; ++i) {
    probe::Event event = at(1);
    event.model = std::string(4096, 'x');
    log.append(std::move(event));
  }
  const auto all = log.after(0);
  EXPECT_EQ(all.size(), EventLog::kMaxText / 4096);
  EXPECT_EQ(all.back()->seq, 1000u);
}

TEST(EventLog, TellsItsFollower) {
  EventLog log;
  std::uint64_t seen = 0;
  log.on_append([&](const probe::Event& event) { seen = event.seq; });
  log.append(at(1));
  EXPECT_EQ(seen, 1u);
}

}  // namespace
}  // namespace andiron::core
