// SPDX-License-Identifier: MIT
#include "agent/probe/container_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace andiron::probe {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = ContainerEvent::Kind;

const std::string kId(64, 'a');
const std::string kOtherId(64, 'b');

/// Time in both clocks, as the tests turn it.
class ContainerTableTest : public ::testing::Test {
 protected:
  ContainerTableTest() { table_.follow({"ollama", "vllm"}); }

  ContainerEvent event(Kind kind, std::optional<pid_t> pid = std::nullopt) const {
    return {"docker", kId, "ollama", kind, pid, wall()};
  }
  ContainerEvent started(std::optional<pid_t> pid = std::nullopt) const {
    return event(Kind::started, pid);
  }
  ContainerEvent stopped() const { return event(Kind::stopped); }
  WallTime wall() const { return WallTime(1'800'000'000s) + since_; }
  SteadyTime now() const { return SteadyTime(1h) + since_; }
  void pass(std::chrono::milliseconds time) { since_ += time; }

  std::vector<std::string> take(ContainerEvent event) {
    auto outcome = table_.take(std::move(event), now());
    for (ContainerEvent& news : outcome.news)
      news_.push_back(std::move(news));
    return outcome.warm;
  }
  std::vector<Kind> kinds() const {
    std::vector<Kind> kinds;
    for (const ContainerEvent& news : news_)
      kinds.push_back(news.kind);
    return kinds;
  }

  ContainerTable table_;
  std::chrono::milliseconds since_{0};
  std::vector<ContainerEvent> news_;
};

TEST_F(ContainerTableTest, AStartIsToldOnceHoweverOftenItIsReported) {
  EXPECT_THAT(take(started(10)), ElementsAre("ollama"));
  for (int i = 0; i < 300; ++i) {
    pass(50ms);
    EXPECT_THAT(take(started(10)), IsEmpty());
  }
  EXPECT_THAT(kinds(), ElementsAre(Kind::started));
  EXPECT_TRUE(table_.running("ollama"));
  EXPECT_THAT(table_.due(now()), IsEmpty());
}

TEST_F(ContainerTableTest, EachRestartIsANewStart) {
  EXPECT_THAT(take(started(10)), ElementsAre("ollama"));
  pass(5s);
  EXPECT_THAT(take(stopped()), IsEmpty());
  EXPECT_FALSE(table_.running("ollama"));
  pass(200ms);
  EXPECT_THAT(take(started(11)), ElementsAre("ollama"));
  EXPECT_THAT(kinds(), ElementsAre(Kind::started, Kind::stopped, Kind::started));
  EXPECT_EQ(news_[1].pid, 10);
}

TEST_F(ContainerTableTest, ARestartWhoseStopWasMissedIsKnownByItsProcess) {
  take(started(10));
  pass(1h);
  EXPECT_THAT(take(started(11)), ElementsAre("ollama"));
}

TEST_F(ContainerTableTest, WithoutAProcessAStartIsKnownByItsTime) {
  EXPECT_THAT(take(started()), ElementsAre("ollama"));
  pass(2s);
  EXPECT_THAT(take(started()), IsEmpty());
  pass(5s);
  EXPECT_THAT(take(started()), ElementsAre("ollama"));
}

TEST_F(ContainerTableTest, ReplayedHistoryChangesNothing) {
  const ContainerEvent old_start = started();
  pass(1s);
  const ContainerEvent old_stop = stopped();
  pass(10s);
  EXPECT_THAT(take(started(10)), ElementsAre("ollama"));  // the list came first
  pass(100ms);
  EXPECT_THAT(take(old_start), IsEmpty());
  EXPECT_THAT(take(old_stop), IsEmpty());
  EXPECT_TRUE(table_.running("ollama"));
  EXPECT_THAT(kinds(), ElementsAre(Kind::started));
}

TEST_F(ContainerTableTest, AStopOfAnEarlierRunThatComesLateChangesNothing) {
  take(started(10));
  pass(2s);
  take(started(11));
  ContainerEvent late = stopped();
  late.runtime = "docker";
  late.pid = 10;
  EXPECT_THAT(take(late), IsEmpty());
  EXPECT_TRUE(table_.running("ollama"));
}

TEST_F(ContainerTableTest, AStartThatIsReportedAgainAfterAMistakenStopIsTheSame) {
  take(started(10));
  pass(2s);
  take(stopped());
  pass(2s);
  EXPECT_THAT(take(started(10)), IsEmpty());
  EXPECT_TRUE(table_.running("ollama"));
}

TEST_F(ContainerTableTest, TheKernelKnowsTheIdOnlyAndItsReportIsOfTheSameStart) {
  ContainerEvent cgroup = started(10);
  cgroup.name.clear();
  EXPECT_THAT(take(cgroup), IsEmpty());  // nobody has said yet whose id that is
  EXPECT_THAT(take(started(10)), ElementsAre("ollama"));
  EXPECT_THAT(take(cgroup), IsEmpty());
  pass(10s);
  take(stopped());
  cgroup.pid = 11;
  cgroup.time = wall();
  EXPECT_THAT(take(cgroup), ElementsAre("ollama"));  // the first to see the second start
  EXPECT_THAT(take(started(11)), IsEmpty());
  EXPECT_EQ(news_.back().name, "ollama");
}

TEST_F(ContainerTableTest, AHookThatDoesNotKnowItsRuntimeReportsTheSameStart) {
  ContainerEvent hook = started(10);
  hook.runtime = "oci";
  EXPECT_THAT(take(hook), ElementsAre("ollama"));
  EXPECT_THAT(take(started(10)), IsEmpty());
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(ContainerTableTest, AServiceAndItsContainerOfOneNameAreOneStart) {
  ContainerEvent service{"systemd", "", "ollama", Kind::started, 9, wall()};
  EXPECT_THAT(take(service), ElementsAre("ollama"));
  pass(1500ms);
  EXPECT_THAT(take(started(10)), IsEmpty());
  // But when only the container restarts, it is the container's start.
  pass(10s);
  EXPECT_THAT(take(started(11)), ElementsAre("ollama"));
}

TEST_F(ContainerTableTest, ACrashLoopWarmsOnceASecond) {
  std::size_t warmed = 0;
  for (pid_t pid = 1; pid <= 100; ++pid) {  // for ten seconds
    warmed += take(started(pid)).size();
    pass(50ms);
    take(stopped());
    warmed += table_.due(now()).size();
    pass(50ms);
  }
  EXPECT_GE(warmed, 9U);
  EXPECT_LE(warmed, 11U);
}

TEST_F(ContainerTableTest, AStartTooSoonAfterAnotherIsWarmedWhenItsTimeHasCome) {
  take(started(10));
  pass(100ms);
  take(stopped());
  EXPECT_THAT(take(started(11)), IsEmpty());
  EXPECT_THAT(table_.due(now()), IsEmpty());
  pass(1s);
  EXPECT_THAT(table_.due(now()), ElementsAre("ollama"));
  EXPECT_THAT(table_.due(now()), IsEmpty());
}

TEST_F(ContainerTableTest, WhatWasPutOffIsLeftWhenTheContainerHasGoneAgain) {
  take(started(10));
  take(stopped());
  take(started(11));
  pass(500ms);
  take(stopped());
  pass(5s);
  EXPECT_THAT(table_.due(now()), IsEmpty());
  EXPECT_THAT(take(started(12)), ElementsAre("ollama"));
}

TEST_F(ContainerTableTest, OthersAreNotFollowed) {
  ContainerEvent other = started(10);
  other.name = "jellyfin";
  EXPECT_THAT(take(other), IsEmpty());
  EXPECT_THAT(news_, IsEmpty());
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(ContainerTableTest, AnIdMayBeWhatIsFollowed) {
  EXPECT_THAT(take({"lxc", "vllm", "", Kind::started, 10, wall()}), ElementsAre("vllm"));
}

TEST_F(ContainerTableTest, AnUpdateUnderTheOldNameIsAStart) {
  take(started(10));
  pass(500ms);
  ContainerEvent fresh = started(11);
  fresh.id = kOtherId;
  take(fresh);
  pass(1s);
  EXPECT_THAT(table_.due(now()), ElementsAre("ollama"));
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(ContainerTableTest, ARenameToAFollowedNameIsAStartAndAwayIsNone) {
  ContainerEvent renamed = started(10);
  renamed.name = "ollama-new";
  EXPECT_THAT(take(renamed), IsEmpty());
  EXPECT_THAT(take(started(10)), ElementsAre("ollama"));
  pass(5s);
  renamed.name = "ollama-old";
  EXPECT_THAT(take(renamed), IsEmpty());
  EXPECT_FALSE(table_.running("ollama"));
  pass(5s);
  renamed.name = "vllm";
  EXPECT_THAT(take(renamed), ElementsAre("vllm"));
}

TEST_F(ContainerTableTest, AStopThatNobodySawStartIsNoNews) {
  EXPECT_THAT(take(stopped()), IsEmpty());
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(ContainerTableTest, WhatIsNotFollowedAnyLongerIsForgotten) {
  take(started(10));
  table_.follow({"vllm"});
  EXPECT_EQ(table_.size(), 0U);
  table_.follow({"ollama"});
  EXPECT_THAT(take(started(10)), ElementsAre("ollama"));
}

TEST_F(ContainerTableTest, ManyContainersAreBounded) {
  std::set<std::string> names;
  for (int i = 0; i < 2000; ++i)
    names.insert("c" + std::to_string(i));
  table_.follow(names);
  for (const std::string& name : names)
    EXPECT_THAT(take({"lxc", name, name, Kind::started, 10, wall()}), ElementsAre(name));
  EXPECT_EQ(table_.size(), ContainerTable::kMaxRecords);
}

}  // namespace
}  // namespace andiron::probe
