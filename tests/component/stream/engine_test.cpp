// SPDX-License-Identifier: MIT
#include "agent/stream/engine.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/ioprio.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/base/unique_fd.hpp"
#include "tests/support/manual_clock.hpp"

namespace andiron::stream {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Only ever reached by a test that fails.
constexpr auto kPatience = 30s;

/// Runs a function, and says when it is destroyed.
class FunctionTask final : public LaneTask {
 public:
  using Function = std::function<void(LaneContext&)>;
  explicit FunctionTask(
      Function function, Priority priority = Priority::normal,
      std::function<void()> abandoned = [] {})
      : function_(std::move(function)), abandoned_(std::move(abandoned)), priority_(priority) {}
  ~FunctionTask() override { destroyed_.set_value(); }
  void run(LaneContext& lane) noexcept override { function_(lane); }
  Priority priority() const noexcept override { return priority_; }
  void abandon() noexcept override { abandoned_(); }
  std::future<void> destroyed() { return destroyed_.get_future(); }

 private:
  Function function_;
  std::function<void()> abandoned_;
  Priority priority_;
  std::promise<void> destroyed_;
};

bool comes(std::future<void>& future) {
  return future.wait_for(kPatience) == std::future_status::ready;
}

/// Something that a task waits for.
class Gate {
 public:
  void open() { promise_.set_value(); }
  /// From any thread, often.
  bool pass() const { return future_.wait_for(kPatience) == std::future_status::ready; }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

os::DeviceTraits device(const std::string& lane) {
  os::DeviceTraits traits;
  traits.lane = lane;
  traits.name = "disk " + lane;
  return traits;
}

class EngineTest : public ::testing::Test {
 protected:
  std::future<void> submit(
      const std::string& lane, FunctionTask::Function function,
      Priority priority = Priority::normal, std::function<void()> abandoned = [] {}) {
    auto task = std::make_unique<FunctionTask>(std::move(function), priority, std::move(abandoned));
    std::future<void> destroyed = task->destroyed();
    const Result<void> submitted = engine_.submit(device(lane), std::move(task));
    EXPECT_TRUE(submitted) << submitted.error().message();
    return destroyed;
  }
  void run(const std::string& lane, FunctionTask::Function function) {
    std::future<void> done = submit(lane, std::move(function));
    ASSERT_TRUE(comes(done));
  }
  LaneStatus status_of(const std::string& lane) const {
    for (const LaneStatus& status : engine_.status()) {
      if (status.lane == lane) return status;
    }
    ADD_FAILURE() << "no lane " << lane;
    return {};
  }

  testing::ManualClock clock_;
  Engine engine_{{}, clock_};
};

TEST_F(EngineTest, ATaskRunsOnItsLanesThreadWithItsDevice) {
  run("8:0", [](LaneContext& lane) {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    EXPECT_STREQ(name.data(), "lane-8:0");
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
    EXPECT_EQ(lane.device.name, "disk 8:0");
    EXPECT_GE(lane.reads.depth(), 1U);
    EXPECT_EQ(lane.limiter.take(1, lane.clock.now()), 0ns);
  });
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0) << "the submitter's mask is as it was";
}

TEST_F(EngineTest, ALongLaneNameIsCut) {
  run("virtual:0:123456", [](LaneContext&) {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    EXPECT_STREQ(name.data(), "lane-virtual:0:");
  });
}

TEST_F(EngineTest, TheIoClassIsThatOfTheOptionsAtEachTask) {
  const auto io_priority = [] {
    return static_cast<int>(::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0));
  };
  constexpr int kBestEffort = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4);
  run("8:0", [&](LaneContext&) { EXPECT_EQ(io_priority(), kBestEffort); });
  engine_.set_options({.io_class = IoClass::idle});
  run("8:0", [&](LaneContext&) { EXPECT_EQ(IOPRIO_PRIO_CLASS(io_priority()), IOPRIO_CLASS_IDLE); });
  run("8:1", [&](LaneContext&) { EXPECT_EQ(IOPRIO_PRIO_CLASS(io_priority()), IOPRIO_CLASS_IDLE); });
  engine_.set_options({.io_class = IoClass::best_effort});
  run("8:0", [&](LaneContext&) { EXPECT_EQ(io_priority(), kBestEffort); });
}

TEST_F(EngineTest, ReadsThatNobodyWaitsForAreIdleUntilSomebodyDoes) {
  const auto io_class = [] {
    const long priority = ::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
    return IOPRIO_PRIO_CLASS(static_cast<int>(priority));
  };
  TransferControl control(std::nullopt);
  control.set_background(true);
  run("8:0", [&](LaneContext& lane) {
    lane.take_class(control);
    EXPECT_EQ(io_class(), IOPRIO_CLASS_IDLE);
    control.set_background(false);
    lane.take_class(control);
    EXPECT_EQ(io_class(), IOPRIO_CLASS_BE);
    control.set_background(true);
    lane.take_class(control);
  });
  run("8:0", [&](LaneContext&) { EXPECT_EQ(io_class(), IOPRIO_CLASS_BE) << "another task"; });
}

TEST_F(EngineTest, TheBandwidthIsOneForAllLanes) {
  engine_.set_options({.max_bandwidth = Bytes{kMiB}});
  run("8:0",
      [](LaneContext& lane) { EXPECT_EQ(lane.limiter.take(2 * kMiB, lane.clock.now()), 0ns); });
  run("8:1", [](LaneContext& lane) {
    EXPECT_NEAR(static_cast<double>(lane.limiter.take(1, lane.clock.now()).count()), 2e9, 1e3);
  });
}

TEST_F(EngineTest, HighestPriorityFirstThenFirstCome) {
  Gate gate;
  std::vector<std::string> order;  // of one lane's thread
  std::vector<std::future<void>> done;
  done.push_back(submit("8:0", [&](LaneContext&) { EXPECT_TRUE(gate.pass()); }));
  for (const auto& [name, priority] :
       std::vector<std::pair<std::string, Priority>>{{"background", Priority::background},
                                                     {"normal", Priority::normal},
                                                     {"critical", Priority::critical},
                                                     {"interactive", Priority::interactive},
                                                     {"normal again", Priority::normal},
                                                     {"critical again", Priority::critical}}) {
    done.push_back(submit(
        "8:0", [&order, name = name](LaneContext&) { order.push_back(name); }, priority));
  }
  gate.open();
  for (std::future<void>& each : done)
    ASSERT_TRUE(comes(each));
  EXPECT_THAT(order, ElementsAre("critical", "critical again", "interactive", "normal",
                                 "normal again", "background"));
}

TEST_F(EngineTest, LanesRunAtTheSameTimeAndALaneOneTaskAtATime) {
  Gate first;
  Gate second;
  bool met = false;
  std::atomic<int> running{0};
  std::future<void> one = submit("8:0", [&](LaneContext&) {
    ++running;
    first.open();
    met = second.pass();
    --running;
  });
  std::future<void> queued = submit("8:0", [&](LaneContext&) { EXPECT_EQ(running.load(), 0); });
  std::future<void> two = submit("8:1", [&](LaneContext&) {
    EXPECT_TRUE(first.pass());
    second.open();
  });
  EXPECT_TRUE(comes(one));
  EXPECT_TRUE(comes(queued));
  EXPECT_TRUE(comes(two));
  EXPECT_TRUE(met);
}

TEST_F(EngineTest, StopAbandonsWhatIsQueuedAndWaitsForWhatRuns) {
  Gate started;
  TransferControl control(std::nullopt);
  bool ended = false;
  std::future<void> running = submit("8:0", [&](LaneContext& lane) {
    started.open();
    const Result<void> waited = lane.wait(control, 1h);
    EXPECT_EQ(waited.error().errc(), Errc::cancelled);
    ended = true;
  });
  std::vector<int> abandoned;
  for (int i = 0; i < 3; ++i) {
    submit(
        "8:0", [](LaneContext&) { ADD_FAILURE() << "ran"; }, Priority::normal,
        [&abandoned, i] { abandoned.push_back(i); });
  }
  ASSERT_TRUE(started.pass());
  control.cancel();
  EXPECT_TRUE(engine_.stop(kPatience));
  EXPECT_TRUE(ended);
  EXPECT_THAT(abandoned, ElementsAre(0, 1, 2));
  EXPECT_TRUE(comes(running));
  const Result<void> late =
      engine_.submit(device("8:0"), std::make_unique<FunctionTask>([](LaneContext&) {}));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().errc(), Errc::unavailable);
}

TEST_F(EngineTest, AWaitEndsByTheLanesClockOrTheDeadline) {
  Gate waiting;
  std::future<void> done = submit("8:0", [&](LaneContext& lane) {
    const TransferControl without_deadline(std::nullopt);
    EXPECT_TRUE(lane.wait(without_deadline, 0s));
    waiting.open();
    EXPECT_TRUE(lane.wait(without_deadline, 30min));
    const TransferControl control(lane.clock.now() + 1h);
    const Result<void> late = lane.wait(control, 20h);
    EXPECT_EQ(late.error().errc(), Errc::timeout);
  });
  ASSERT_TRUE(waiting.pass());
  EXPECT_EQ(done.wait_for(0s), std::future_status::timeout);
  for (int minutes = 0; done.wait_for(1ms) != std::future_status::ready; ++minutes) {
    ASSERT_LT(minutes, 30000) << "a wait that does not end";
    clock_.advance(1min);
  }
}

TEST_F(EngineTest, ReadsThatATaskLeftAreTakenBack) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  std::array<std::byte, 8> buffer{};
  run("8:0", [&](LaneContext& lane) {
    EXPECT_TRUE(lane.reads.submit({1, read_end.get(), 0, std::span(buffer)}));
  });
  run("8:0", [](LaneContext& lane) { EXPECT_EQ(lane.reads.in_flight(), 0U); });
  ASSERT_EQ(::write(write_end.get(), "12345678", 8), 8);
  EXPECT_TRUE(engine_.stop(kPatience));
  EXPECT_EQ(buffer, decltype(buffer){});
}

TEST(EngineLanes, PastTheMostAnIdleOneMakesRoomAndABusyOneDoesNot) {
  const testing::ManualClock clock;
  Engine engine({.max_lanes = 1}, clock);
  Gate gate;
  Gate started;
  ASSERT_TRUE(engine.submit(device("net:0:1"), std::make_unique<FunctionTask>([&](LaneContext&) {
                              started.open();
                              EXPECT_TRUE(gate.pass());
                            })));
  ASSERT_TRUE(started.pass());
  const Result<void> refused =
      engine.submit(device("net:0:2"), std::make_unique<FunctionTask>([](LaneContext&) {}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errc(), Errc::unavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("net:0:2"));
  gate.open();
  while (engine.status().at(0).busy)
    std::this_thread::yield();
  for (int i = 2; i < 200; ++i) {
    const std::string lane = "net:0:" + std::to_string(i);
    auto task = std::make_unique<FunctionTask>([](LaneContext&) {});
    std::future<void> done = task->destroyed();
    ASSERT_TRUE(engine.submit(device(lane), std::move(task)));
    ASSERT_TRUE(comes(done));
    ASSERT_EQ(engine.status().size(), 1U);
    EXPECT_EQ(engine.status().at(0).lane, lane);
    while (engine.status().at(0).busy)
      std::this_thread::yield();
  }
  EXPECT_TRUE(engine.stop(kPatience));
}

/// What a task that hangs in the kernel shares with the test: it outlives the engine.
struct Stall {
  Stall() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
  std::promise<void> reached;
  std::promise<ssize_t> returned;
};

TEST(EngineStalled, ALaneThatHangsInTheKernelIsSeenAndLeftBehind) {
  static testing::ManualClock clock;  // outlives the thread that is left behind
  const auto stall = std::make_shared<Stall>();
  std::future<void> reached = stall->reached.get_future();
  std::future<ssize_t> returned = stall->returned.get_future();
  auto task = std::make_unique<FunctionTask>([stall](LaneContext& lane) {
    lane.beat();
    stall->reached.set_value();
    char byte = 0;
    const ssize_t got = ::read(stall->read_end.get(), &byte, 1);  // the kernel keeps it
    lane.beat();
    lane.limiter.take(1, lane.clock.now());
    EXPECT_FALSE(lane.device.lane.empty());
    stall->returned.set_value(got);
  });
  std::future<void> destroyed = task->destroyed();
  {
    Engine engine({}, clock);
    ASSERT_TRUE(engine.submit(device("net:0:52"), std::move(task)));
    ASSERT_TRUE(comes(reached));
    clock.advance(90s);
    bool abandoned = false;
    ASSERT_TRUE(engine.submit(
        device("net:0:52"),
        std::make_unique<FunctionTask>([](LaneContext&) { ADD_FAILURE() << "ran"; },
                                       Priority::normal, [&abandoned] { abandoned = true; })));
    ASSERT_EQ(engine.status().size(), 1U);
    EXPECT_EQ(engine.status()[0].lane, "net:0:52");
    EXPECT_EQ(engine.status()[0].device, "disk net:0:52");
    EXPECT_EQ(engine.status()[0].queued, 1U);
    EXPECT_TRUE(engine.status()[0].busy);
    EXPECT_EQ(engine.status()[0].silent_for, 90s);

    auto other = std::make_unique<FunctionTask>([](LaneContext&) {});
    std::future<void> other_done = other->destroyed();
    ASSERT_TRUE(engine.submit(device("8:0"), std::move(other)));
    EXPECT_TRUE(comes(other_done)) << "another lane works on";

    EXPECT_FALSE(engine.stop(10ms));
    EXPECT_TRUE(abandoned);
    EXPECT_TRUE(engine.status().empty());
  }
  ASSERT_EQ(::write(stall->write_end.get(), "x", 1), 1);
  ASSERT_EQ(returned.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(returned.get(), 1);
  EXPECT_TRUE(comes(destroyed)) << "the thread goes on to its end";
}

}  // namespace
}  // namespace andiron::stream
