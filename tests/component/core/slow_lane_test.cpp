// SPDX-License-Identifier: MIT
#include "agent/core/slow_lane.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/support/manual_clock.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;

void deliver_one(SlowLane& lane) {
  pollfd entry{lane.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
  lane.deliver();
}

/// A read that comes back only when the test lets it: a disk that does not answer.
struct StuckDisk {
  std::array<int, 2> pipe{};
  std::atomic<bool> reading{false};
  StuckDisk() { EXPECT_EQ(::pipe(pipe.data()), 0); }
  ~StuckDisk() {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  int read() {
    char byte = 0;
    reading = true;
    reading.notify_all();
    return static_cast<int>(::read(pipe[0], &byte, 1));
  }
  void answer() { EXPECT_EQ(::write(pipe[1], "x", 1), 1); }
};

TEST(SlowLane, WorksThereAndFinishesHere) {
  ManualClock clock;
  auto lane = SlowLane::create(clock);
  ASSERT_TRUE(lane.has_value());
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id worked;
  std::thread::id finished;
  (*lane)->run([] { return std::this_thread::get_id(); },
               [&](std::thread::id id) {
                 worked = id;
                 finished = std::this_thread::get_id();
               });
  deliver_one(**lane);
  EXPECT_NE(worked, here);
  EXPECT_EQ(finished, here);
  EXPECT_TRUE((*lane)->stop(10s));
}

TEST(SlowLane, AnotherThreadTakesOverFromOneThatIsStuck) {
  ManualClock clock;
  StuckDisk disk;
  auto lane = SlowLane::create(clock);
  int got = 0;
  int answered = 0;
  (*lane)->run([&] { return disk.read(); }, [&](int count) { answered = count; });
  (*lane)->run([] { return 7; }, [&](int value) { got = value; });
  disk.reading.wait(false);
  (*lane)->tick();
  EXPECT_EQ((*lane)->stuck(), 0u);
  EXPECT_EQ((*lane)->queued(), 1u);
  clock.advance(SlowLane::kStuckAfter + 1s);
  EXPECT_EQ((*lane)->stuck(), 1u);
  (*lane)->tick();
  deliver_one(**lane);
  EXPECT_EQ(got, 7);
  disk.answer();
  deliver_one(**lane);
  EXPECT_EQ(answered, 1);
  EXPECT_TRUE((*lane)->stop(10s));
}

TEST(SlowLane, ADeadPlaceTakesOneThread) {
  ManualClock clock;
  StuckDisk disk;
  auto lane = SlowLane::create(clock);
  int got = 0;
  int after = 0;
  (*lane)->run_at(
      "net:1", [&] { return disk.read(); }, [](int) {});
  for (int i = 0; i < 20; ++i)
    (*lane)->run_at(
        "net:1", [] { return 1; }, [&](int) { ++after; });
  disk.reading.wait(false);
  clock.advance(SlowLane::kStuckAfter + 1s);
  (*lane)->tick();  // nothing that could be done: no thread for it
  (*lane)->run_at(
      "net:2", [] { return 7; }, [&](int value) { got = value; });
  (*lane)->tick();
  deliver_one(**lane);
  EXPECT_EQ(got, 7);
  EXPECT_EQ((*lane)->stuck(), 1u);
  EXPECT_EQ((*lane)->queued(), 20u);
  disk.answer();
  while (after < 20)
    deliver_one(**lane);
  EXPECT_TRUE((*lane)->stop(10s));
}

TEST(SlowLane, StopSaysWhenAThreadDoesNotComeBack) {
  ManualClock clock;
  StuckDisk disk;
  auto lane = SlowLane::create(clock);
  std::atomic<bool> ended{false};
  (*lane)->run([&] {
    disk.read();
    ended = true;
    ended.notify_all();
  });
  disk.reading.wait(false);
  EXPECT_FALSE((*lane)->stop(1ms));
  disk.answer();
  ended.wait(false);
}

}  // namespace
}  // namespace andiron::core
