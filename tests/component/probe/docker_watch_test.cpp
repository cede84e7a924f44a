// SPDX-License-Identifier: MIT
#include "agent/probe/docker_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <deque>
#include <string>

#include "tests/component/probe/scripted_dockerd.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::probe {
namespace {

using namespace std::chrono_literals;
using testing::ScriptedDockerd;
using Kind = ContainerEvent::Kind;
using Manner = ScriptedDockerd::Manner;
using State = os::Capability::State;

const std::string kId(64, 'a');
const std::string kOther(64, 'b');

class DockerWatchTest : public ::testing::Test {
 protected:
  DockerWatchTest()
      : socket_((folder_ / "d.sock").string()),
        reports_(std::make_shared<ContainerMailbox>(*ContainerMailbox::create())) {}

  void start(std::chrono::milliseconds reply = 10s, std::chrono::milliseconds list_again = 1h) {
    watch_ = std::move(*DockerWatch::start({socket_, reply, list_again}, reports_));
    watch_->follow({"ollama"});
  }
  /// The next report, which has to come; nothing here takes longer.
  ContainerReport next() {
    while (waiting_.empty()) {
      pollfd fd{reports_->fd(), POLLIN, 0};
      if (::poll(&fd, 1, 30'000) != 1) throw std::runtime_error("no report in 30 s");
      for (ContainerReport& report : reports_->drain())
        waiting_.push_back(std::move(report));
    }
    ContainerReport report = std::move(waiting_.front());
    waiting_.pop_front();
    return report;
  }
  /// The next event; what is said of the capability in between is passed over.
  ContainerEvent next_event() {
    while (true) {
      ContainerReport report = next();
      if (auto* event = std::get_if<ContainerEvent>(&report)) return std::move(*event);
    }
  }
  os::Capability next_capability() {
    while (true) {
      ContainerReport report = next();
      if (auto* found = std::get_if<os::Capability>(&report)) return std::move(*found);
    }
  }
  void until_capability(State state) {
    while (next_capability().state != state) {
    }
  }

  testing::TempDir folder_;
  std::string socket_;
  std::shared_ptr<ContainerMailbox> reports_;
  std::deque<ContainerReport> waiting_;
  std::unique_ptr<DockerWatch> watch_;
};

TEST_F(DockerWatchTest, SubscribesBeforeItListsAndTellsWhatRuns) {
  ScriptedDockerd dockerd(socket_);
  dockerd.set(kId, {"ollama", 41});
  dockerd.set(kOther, {"jellyfin", 42});
  start();
  const ContainerEvent event = next_event();
  EXPECT_EQ(event.runtime, "docker");
  EXPECT_EQ(event.id, kId);
  EXPECT_EQ(event.name, "ollama");
  EXPECT_EQ(event.kind, Kind::started);
  EXPECT_EQ(event.pid, 41);
  EXPECT_EQ(format_time(event.time), "2026-11-29T10:00:00.500Z");
  until_capability(State::on);
  const auto requests = dockerd.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_THAT(requests[0], ::testing::StartsWith("/events?since="));
  EXPECT_EQ(requests[1], "/containers/json");
  EXPECT_EQ(requests[2], "/containers/" + kId + "/json");
}

TEST_F(DockerWatchTest, TellsStartsAndStopsAsTheyCome) {
  ScriptedDockerd dockerd(socket_);
  start();
  until_capability(State::on);
  dockerd.set(kId, {"ollama", 41});
  dockerd.say_event("start", kOther, "jellyfin", "1764453600000000000");
  dockerd.say_event("start", kId, "ollama", "1764453600000000000");
  EXPECT_EQ(next_event().pid, 41);
  dockerd.set(kId, {"ollama", 0});
  dockerd.say_event("die", kId, "ollama", "1764453601000000000");
  const ContainerEvent stopped = next_event();
  EXPECT_EQ(stopped.kind, Kind::stopped);
  EXPECT_EQ(format_time(stopped.time), "2025-11-29T22:00:01.000Z");
  // One that has ended before it could be asked for did start all the same.
  dockerd.say_event("start", kId, "ollama", "1764453602000000000");
  const ContainerEvent again = next_event();
  EXPECT_EQ(again.kind, Kind::started);
  EXPECT_EQ(again.pid, std::nullopt);
  EXPECT_EQ(format_time(again.time), "2025-11-29T22:00:02.000Z");
}

TEST_F(DockerWatchTest, ARenameOfWhatRunsIsToldAndOfWhatDoesNotIsNot) {
  ScriptedDockerd dockerd(socket_);
  start();
  until_capability(State::on);
  dockerd.set(kOther, {"ollama", 0});
  dockerd.say_event("rename", kOther, "ollama", "1764453600000000000");
  dockerd.set(kId, {"ollama", 41});
  dockerd.say_event("rename", kId, "ollama", "1764453600000000000");
  EXPECT_EQ(next_event().id, kId);
}

TEST_F(DockerWatchTest, AfterAGapItAsksFromTheLastEventOnAndTheListMakesGood) {
  ScriptedDockerd dockerd(socket_);
  dockerd.set(kId, {"ollama", 41});
  start();
  EXPECT_EQ(next_event().pid, 41);
  until_capability(State::on);
  dockerd.say_event("start", kId, "ollama", "1764453600123456789");
  EXPECT_EQ(next_event().pid, 41);
  dockerd.set(kId, {"ollama", 43, "2026-11-29T10:00:05Z"});  // and nobody is told
  dockerd.hang_up();
  EXPECT_EQ(next_event().pid, 43);
  std::vector<std::string> subscriptions;
  for (const std::string& target : dockerd.requests()) {
    if (target.starts_with("/events")) subscriptions.push_back(target);
  }
  ASSERT_EQ(subscriptions.size(), 2U);
  EXPECT_THAT(subscriptions[1], ::testing::StartsWith("/events?since=1764453600.123456789&"));
  until_capability(State::on);
  dockerd.remove(kId);
  dockerd.hang_up();
  EXPECT_EQ(next_event().kind, Kind::stopped);
}

TEST_F(DockerWatchTest, ADaemonThatGoesAndComesBackIsFoundAgain) {
  auto dockerd = std::make_unique<ScriptedDockerd>(socket_);
  start();
  until_capability(State::on);
  dockerd.reset();
  os::Capability lost = next_capability();
  while (lost.state != State::off)
    lost = next_capability();
  EXPECT_THAT(lost.reason, ::testing::HasSubstr(socket_));
  EXPECT_NE(lost.remedy, "");
  dockerd = std::make_unique<ScriptedDockerd>(socket_);
  dockerd->set(kId, {"ollama", 50});
  EXPECT_EQ(next_event().pid, 50);
}

TEST_F(DockerWatchTest, WhatHidesInASilentStreamIsFoundByTheNextList) {
  ScriptedDockerd dockerd(socket_);
  start(10s, 50ms);
  until_capability(State::on);
  dockerd.set(kId, {"ollama", 41});
  EXPECT_EQ(next_event().pid, 41);
}

TEST_F(DockerWatchTest, NewNamesAreLookedForAtOnceAndNoneIsSilence) {
  ScriptedDockerd dockerd(socket_);
  dockerd.set(kOther, {"vllm", 42});
  start();
  until_capability(State::on);
  watch_->follow({"ollama", "vllm"});
  EXPECT_EQ(next_event().name, "vllm");
  watch_->follow({});
  EXPECT_EQ(next_capability().state, State::off);
}

TEST_F(DockerWatchTest, HostileBytesAreLeftOutAndTheStreamGoesOn) {
  ScriptedDockerd dockerd(socket_);
  dockerd.set(kId, {"ollama", 41});
  start();
  EXPECT_EQ(next_event().pid, 41);
  until_capability(State::on);
  dockerd.say("not json\n{\"Action\":\n[[[[[[\n\xff\xff\n" + std::string(600'000, 'x') + "\n");
  dockerd.set(kId, {"ollama", 43, "2026-11-29T10:00:05Z"});
  dockerd.say_event("start", kId, "ollama", "99999999999999999999");
  // What was left out may have been news: the list is asked for again, and may still say 41.
  while (next_event().pid != 43) {
  }
  EXPECT_EQ(dockerd.subscribers(), 1U);
}

TEST_F(DockerWatchTest, ABadDaemonIsSaidOnceAndABetterOneIsTakenUp) {
  for (const Manner manner :
       {Manner::garbage, Manner::refusing, Manner::silent, Manner::endless_list}) {
    SCOPED_TRACE(static_cast<int>(manner));
    ScriptedDockerd dockerd(socket_, manner);
    start(1s);
    until_capability(State::degraded);
    dockerd.behave(Manner::good);
    dockerd.hang_up();
    until_capability(State::on);
    watch_.reset();
  }
}

TEST_F(DockerWatchTest, EndsAtOnceWhileADaemonHangs) {
  ScriptedDockerd dockerd(socket_, Manner::silent);
  start(1h);
  while (dockerd.requests().empty())
    std::this_thread::yield();
  watch_.reset();  // would take the hour, and the test's time is up before
}

TEST_F(DockerWatchTest, AFloodIsBoundedAndTheLastStateIsKnown) {
  ScriptedDockerd dockerd(socket_);
  start();
  until_capability(State::on);
  for (std::size_t i = 0; i < kMaxReports + 200; ++i) {
    dockerd.say_event("die", kId, "ollama", "1764453601000000000");
  }
  dockerd.set(kId, {"ollama", 77});
  dockerd.say_event("start", kId, "ollama", "1764453602000000000");
  std::size_t stops = 0;
  ContainerEvent event = next_event();
  for (; event.kind == Kind::stopped; event = next_event())
    ++stops;
  EXPECT_EQ(event.pid, 77);
  EXPECT_LE(stops, kMaxReports + 200);
}

}  // namespace
}  // namespace andiron::probe
