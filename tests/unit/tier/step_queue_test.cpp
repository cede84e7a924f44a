// SPDX-License-Identifier: MIT
#include "agent/tier/step_queue.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace andiron::tier {
namespace {

using Role = StepQueue::Role;

std::vector<FillStep> steps(std::size_t count, bool ask_ahead) {
  std::vector<FillStep> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back({{i * 10, 10}, true, ask_ahead});
  return all;
}

TEST(StepQueue, GivesEachStepOnceInOrder) {
  StepQueue queue(steps(3, false), 100);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::optional<StepQueue::Work> work = queue.take(Role::reader);
    ASSERT_TRUE(work);
    EXPECT_EQ(i, work->index);
    EXPECT_TRUE(work->ahead.empty());
  }
  EXPECT_FALSE(queue.take(Role::reader));
}

TEST(StepQueue, AsksAheadUpToItsLimit) {
  StepQueue queue(steps(10, true), 25);
  const auto first = queue.take(Role::reader);
  ASSERT_TRUE(first);
  EXPECT_EQ((std::vector<ByteRange>{{0, 10}, {10, 10}, {20, 10}}), first->ahead);
  // Nothing has come yet: no more is asked for, and no step is asked for twice.
  EXPECT_TRUE(queue.take(Role::reader)->ahead.empty());
  queue.done(0);
  EXPECT_EQ((std::vector<ByteRange>{{30, 10}}), queue.take(Role::reader)->ahead);
}

TEST(StepQueue, TheAskingIsShared) {
  StepQueue queue(steps(100, true), 1000);
  const std::size_t first = queue.take(Role::reader)->ahead.size();
  EXPECT_LE(first, 10U);
  EXPECT_EQ(first, queue.take(Role::reader)->ahead.size());
}

TEST(StepQueue, AStepIsAskedForAtTheLatestWithItsOwnTurn) {
  StepQueue queue(steps(3, true), 0);
  EXPECT_EQ((std::vector<ByteRange>{{0, 10}}), queue.take(Role::reader)->ahead);
  EXPECT_EQ((std::vector<ByteRange>{{10, 10}}), queue.take(Role::reader)->ahead);
}

TEST(StepQueue, ReadersReadFirstAndMappersOnlyMap) {
  StepQueue queue({{{0, 10}, false}, {{10, 10}, true}, {{20, 10}, false}, {{30, 10}, true}}, 0);
  EXPECT_EQ(2U, queue.missing());
  EXPECT_EQ(2U, queue.resident());
  EXPECT_EQ(10U, queue.take(Role::reader)->step.range.offset);
  EXPECT_EQ(0U, queue.take(Role::mapper)->step.range.offset);
  EXPECT_EQ(30U, queue.take(Role::reader)->step.range.offset);
  EXPECT_EQ(20U, queue.take(Role::reader)->step.range.offset);
  EXPECT_FALSE(queue.take(Role::reader));
  queue.restart();
  EXPECT_EQ(0U, queue.take(Role::mapper)->step.range.offset);
  EXPECT_EQ(20U, queue.take(Role::mapper)->step.range.offset);
  EXPECT_FALSE(queue.take(Role::mapper));  // although something is missing
}

TEST(StepQueue, StopsAndKeepsTheFirstReason) {
  StepQueue queue(steps(3, false), 0);
  queue.stop(make_error(Errc::cancelled, "first"));
  queue.stop(make_error(Errc::timeout, "second"));
  EXPECT_FALSE(queue.take(Role::reader));
  const std::optional<Error> error = queue.take_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(Errc::cancelled, error->errc());
  EXPECT_FALSE(queue.take_error());
}

TEST(StepQueue, ARestartLeavesOutWhatIsDone) {
  StepQueue queue(steps(4, true), 10);
  for (int i = 0; i < 3; ++i)
    queue.take(Role::reader);
  queue.done(0);
  queue.stop_at_fault(2);
  queue.stop_at_fault(1);
  EXPECT_FALSE(queue.take(Role::reader));
  EXPECT_EQ(1U, queue.take_fault());
  queue.done(1);
  queue.restart();
  const auto next = queue.take(Role::reader);
  ASSERT_TRUE(next);
  EXPECT_EQ(2U, next->index);
  EXPECT_EQ((std::vector<ByteRange>{{20, 10}}), next->ahead);
  EXPECT_EQ(2U, queue.rest().size());
}

TEST(StepQueue, ServesSeveralThreads) {
  StepQueue queue(steps(5000, true), 200);
  std::vector<std::vector<std::size_t>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&queue, &mine] {
      while (const auto work = queue.take(Role::reader)) {
        mine.push_back(work->index);
        queue.done(work->index);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  std::vector<bool> seen(5000);
  for (const auto& mine : taken) {
    for (const std::size_t index : mine) {
      EXPECT_FALSE(seen[index]);
      seen[index] = true;
    }
  }
  EXPECT_TRUE(queue.rest().empty());
}

}  // namespace
}  // namespace andiron::tier
