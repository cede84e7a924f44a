// SPDX-License-Identifier: MIT
//
// What a fill is told while it runs, and the limits that it keeps.
#include <limits>
#include <string>
#include <thread>

#include "agent/tier/fill_run.hpp"
#include "tests/component/tier/fill_fixture.hpp"
#include "tests/support/manual_clock.hpp"

namespace andiron::testing {
namespace {

using tier::FillOutcome;
using tier::FillRequest;

TEST_F(FillTest, CancelledBeforeItBegan) {
  const Path path = cold_file("model", kMiB);
  control_->cancel();
  const FillOutcome outcome = fill(request_for({path}, Hold::mapped));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::cancelled, outcome.error->errc());
  EXPECT_TRUE(outcome.held.empty());
  EXPECT_EQ(0U, resident(path));
}

TEST_F(FillTest, CancelledMidWayKeepsTheFilesThatWereDone) {
  const Path first = cold_file("first", kMiB);
  const Path second = cold_file("second", 60 * kMiB);
  const Path third = cold_file("third", kMiB);
  // Slow enough to be met under way: the second would take half a minute.
  engine_.set_options({Bytes{2 * kMiB}, IoClass::best_effort, 64});
  FillRequest request = request_for({first, second, third}, Hold::mapped);
  request.method = tier::FillMethod::populate;
  start(std::move(request));
  while (control_->done() <= kMiB)
    std::this_thread::yield();
  control_->cancel();
  const FillOutcome outcome = FillTest::outcome();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::cancelled, outcome.error->errc());
  ASSERT_EQ(1U, outcome.held.size());
  EXPECT_EQ(first, outcome.held[0].path);
  EXPECT_EQ(0U, resident(third));
  EXPECT_LT(control_->done(), control_->total());
  EXPECT_EQ(control_->done(), outcome.bytes_read);
}

TEST_F(FillTest, ProtectedIsMappedWhereNothingProtects) {
  const Path path = cold_file("model", kMiB);
  FillRequest request = request_for({path}, Hold::protected_);
  request.unprotected = "there is no cgroup v2 here";
  const FillOutcome outcome = fill(std::move(request));
  ASSERT_FALSE(outcome.error);
  ASSERT_EQ(1U, outcome.held.size());
  EXPECT_EQ(Hold::mapped, outcome.held[0].hold);
  ASSERT_TRUE(outcome.lock_limit);
  EXPECT_NE(outcome.lock_limit->find("there is no cgroup v2 here"), std::string::npos);
}

TEST_F(FillTest, WaitsWhilePausedAndThenGoesOn) {
  const Path path = cold_file("model", 30 * kMiB);
  make_resident(path, 0, 4096);
  control_->set_paused(true);
  start(request_for({path}, Hold::cached));
  wait_until_located();
  EXPECT_TRUE(done_->drain().empty());
  EXPECT_EQ(4096U, control_->done());
  control_->set_paused(false);
  const FillOutcome outcome = FillTest::outcome();
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(30 * kMiB, resident(path));
}

TEST_F(FillTest, AnswersACancelWhilePaused) {
  const Path path = cold_file("model", kMiB);
  make_resident(path, 0, 4096);
  control_->set_paused(true);
  start(request_for({path}, Hold::cached));
  wait_until_located();
  control_->cancel();
  const FillOutcome outcome = FillTest::outcome();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::cancelled, outcome.error->errc());
}

TEST_F(FillTest, EndsAtItsDeadline) {
  const Path path = cold_file("model", kMiB);
  make_resident(path, 0, 4096);
  ManualClock clock;
  control_ = std::make_shared<stream::TransferControl>(clock.now() + std::chrono::minutes(1));
  control_->set_paused(true);
  const os::DeviceTraits device = device_of(path);
  std::thread lane_thread([&] {
    const auto reads = stream::make_pread_backend();
    stream::RateLimiter limiter(0);
    stream::LaneContext lane{device, *reads, limiter, clock};
    tier::make_fill_task(request_for({path}, Hold::mapped), control_, done_)->run(lane);
  });
  wait_until_located();
  EXPECT_TRUE(done_->drain().empty());
  clock.advance(std::chrono::minutes(2));
  lane_thread.join();
  const FillOutcome outcome = FillTest::outcome();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::timeout, outcome.error->errc());
  EXPECT_TRUE(outcome.held.empty());
}

TEST_F(FillTest, AnAbandonedTaskSaysSoOnce) {
  FillRequest request = request_for({cold_file("model", kMiB)}, Hold::mapped);
  {
    const auto task = tier::make_fill_task(std::move(request), control_, done_);
    task->abandon();
  }
  const FillOutcome outcome = FillTest::outcome();
  EXPECT_EQ(7U, outcome.job);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::cancelled, outcome.error->errc());
}

TEST_F(FillTest, WhatIsQueuedAtTheEndIsAbandoned) {
  const Path path = cold_file("model", kMiB);
  make_resident(path, 0, 4096);
  control_->set_paused(true);
  start(request_for({path}, Hold::cached));
  wait_until_located();
  start(request_for({path}, Hold::cached));
  control_->cancel();
  EXPECT_TRUE(engine_.stop(std::chrono::seconds(60)));
  const std::vector<FillOutcome> outcomes = done_->drain();
  ASSERT_EQ(2U, outcomes.size());
  for (const FillOutcome& outcome : outcomes)
    EXPECT_EQ(Errc::cancelled, outcome.error.value().errc());
}

TEST_F(FillTest, NoHeadroomEndsAllAndKeepsWhatIsThere) {
  const Path path = cold_file("model", kMiB);
  make_resident(path, 0, 8192);
  const Path next = cold_file("next", kMiB);
  FillRequest request = request_for({path, next}, Hold::mapped);
  request.min_available = std::numeric_limits<std::uint64_t>::max();
  const FillOutcome outcome = fill(std::move(request));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::no_headroom, outcome.error->errc());
  ASSERT_EQ(1U, outcome.held.size());
  EXPECT_EQ(8192U, outcome.held[0].resident_bytes);
  EXPECT_EQ(0U, resident(next));
}

TEST_F(FillTest, MappedPagesCountAgainstTheHeadroomAlthoughTheKernelCallsThemAvailable) {
  FillRequest request;
  request.min_available = 1;
  const auto reads = stream::make_pread_backend();
  stream::RateLimiter limiter(0);
  const os::DeviceTraits device;
  const stream::LaneContext lane{device, *reads, limiter, clock_};
  tier::BufferedReads buffered(*reads);
  FillOutcome outcome;
  tier::FillRun run{request, lane, *control_, buffered, outcome};
  EXPECT_TRUE(run.check_headroom(0));
  const std::uint64_t more_than_any_machine_has = std::uint64_t{1} << 60;
  const auto refused = run.check_headroom(more_than_any_machine_has);
  ASSERT_FALSE(refused);
  EXPECT_EQ(Errc::no_headroom, refused.error().errc());
  run.mapped_unlocked = more_than_any_machine_has;
  EXPECT_FALSE(run.check_headroom(0));

  run.mapped_unlocked = 0;
  tier::FillAccount account(run, more_than_any_machine_has);
  account.set_locked_until(4096);
  account.add_mapped({0, 4096});
  EXPECT_EQ(0U, account.mapped_unlocked());  // locked pages leave `available` by themselves
  account.add_mapped({0, 8192});
  EXPECT_EQ(4096U, account.mapped_unlocked());
}

}  // namespace
}  // namespace andiron::testing
