// SPDX-License-Identifier: MIT
#include "agent/core/jobs.hpp"

#include <gtest/gtest.h>

namespace andiron::core {
namespace {

TEST(JobTable, KeepsWhatRunsAndTheLastThatEnded) {
  JobTable jobs;
  const std::uint64_t running = jobs.add().id;
  for (std::size_t i = 0; i < 2 * JobTable::kKept; ++i)
    jobs.add().state = JobState::done;
  EXPECT_NE(jobs.find(running), nullptr);
  EXPECT_EQ(jobs.running(), 1u);
  EXPECT_EQ(jobs.find(running + 1), nullptr);
  EXPECT_LE(jobs.all().size(), JobTable::kKept + 2);
}

TEST(JobTable, NeverForgetsTheOneThatEndsNow) {
  JobTable jobs;
  Job& old = jobs.add();
  const std::uint64_t id = old.id;
  for (std::size_t i = 0; i < 2 * JobTable::kKept; ++i)
    jobs.add().state = JobState::done;
  old.state = JobState::done;
  ASSERT_EQ(jobs.find(id), &old);
}

}  // namespace
}  // namespace andiron::core
