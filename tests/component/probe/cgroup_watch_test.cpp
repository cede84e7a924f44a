// SPDX-License-Identifier: MIT
// The watch on trees of plain files that look like cgroups, moved into place whole as the kernel
// makes them; tests/root/containers has the kernel's own.
#include "agent/probe/cgroup_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace andiron::probe {
namespace {

using Kind = ContainerEvent::Kind;
using State = os::Capability::State;
namespace fs = std::filesystem;

const std::string kId(64, 'a');

class CgroupWatchTest : public ::testing::Test {
 protected:
  CgroupWatchTest() : reports_(std::make_shared<ContainerMailbox>(*ContainerMailbox::create())) {
    fs::create_directories(folder_ / "root");
    fs::create_directories(folder_ / "made");
  }
  void start(bool v2) {
    v2_ = v2;
    if (v2) folder_.write("root/cgroup.controllers", "memory pids\n");
    if (!v2) folder_.write("root/systemd/cgroup.procs", "1\n");
    watch_ = std::move(*CgroupWatch::start({(folder_ / "root").string()}, reports_));
    watch_->follow({"ollama", "vllm.service"});
    EXPECT_EQ(next_capability().state, v2 ? State::on : State::degraded);
  }
  fs::path at(const std::string& path) const {
    return folder_ / (v2_ ? "root/" + path : "root/systemd/" + path);
  }
  /// A group, with a process or not.
  void make(const std::string& path, bool populated) {
    const fs::path made = folder_ / "made" / "group";
    write(made, populated);
    fs::create_directories(at(path).parent_path());
    fs::rename(made, at(path));
  }
  void write(const fs::path& group, bool populated) const {
    const std::string below = fs::relative(group, folder_.path()).string() + "/";
    folder_.write(below + "cgroup.procs", populated ? std::to_string(::getpid()) + "\n" : "");
    folder_.write(below + "cgroup.events",
                  std::string("populated ") + (populated ? "1" : "0") + "\nfrozen 0\n");
  }
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
  ContainerEvent next_event() { return std::get<ContainerEvent>(next()); }
  os::Capability next_capability() { return std::get<os::Capability>(next()); }
  void expect(Kind kind, const std::string& runtime, const std::string& word) {
    const ContainerEvent event = next_event();
    EXPECT_EQ(event.kind, kind);
    EXPECT_EQ(event.runtime, runtime);
    EXPECT_EQ(event.id.empty() ? event.name : event.id, word);
    EXPECT_EQ(event.pid, std::nullopt);
  }

  testing::TempDir folder_;
  bool v2_ = true;
  std::shared_ptr<ContainerMailbox> reports_;
  std::deque<ContainerReport> waiting_;
  std::unique_ptr<CgroupWatch> watch_;
};

TEST_F(CgroupWatchTest, FindsWhatIsThereAlready) {
  make("system.slice/ollama.service", true);
  make("system.slice/ssh.service", true);
  make("system.slice/docker-" + kId + ".scope", true);
  folder_.write("root/cgroup.controllers", "memory pids\n");
  watch_ = std::move(*CgroupWatch::start({(folder_ / "root").string()}, reports_));
  watch_->follow({"ollama", "vllm.service"});
  std::vector<std::string> found;
  for (int i = 0; i < 2; ++i) {
    const ContainerEvent event = next_event();
    EXPECT_EQ(event.kind, Kind::started);
    found.push_back(event.id + event.name);
  }
  EXPECT_THAT(found, ::testing::UnorderedElementsAre("ollama", kId));
  EXPECT_EQ(next_capability().state, State::on);
}

TEST_F(CgroupWatchTest, AGroupThatAppearsAndIsPopulatedIsAStartAndItsEndAStop) {
  start(true);
  make("system.slice/ollama.service", false);
  write(at("system.slice/ollama.service"), true);
  expect(Kind::started, "systemd", "ollama");
  write(at("system.slice/ollama.service"), false);
  expect(Kind::stopped, "systemd", "ollama");
  write(at("system.slice/ollama.service"), true);
  expect(Kind::started, "systemd", "ollama");
  fs::rename(at("system.slice/ollama.service"), folder_ / "made/gone");
  expect(Kind::stopped, "systemd", "ollama");
}

TEST_F(CgroupWatchTest, FoldersMayBeDeepAndComeLater) {
  start(true);
  make("a.slice/b.slice/c.slice/lxc.payload.ollama", true);
  expect(Kind::started, "lxc", "ollama");
  make("system.slice/docker-" + kId + ".scope", true);
  expect(Kind::started, "docker", kId);
  make("system.slice/vllm.service", true);
  expect(Kind::started, "systemd", "vllm.service");
}

TEST_F(CgroupWatchTest, OneThatIsMadeAnewIsAStopAndAStart) {
  start(true);
  make("ollama.service", true);
  expect(Kind::started, "systemd", "ollama");
  write(folder_ / "made" / "group", true);
  fs::rename(at("ollama.service"), folder_ / "made/old");
  fs::rename(folder_ / "made" / "group", at("ollama.service"));
  expect(Kind::stopped, "systemd", "ollama");
  expect(Kind::started, "systemd", "ollama");
}

TEST_F(CgroupWatchTest, OtherNamesAreLookedForWhenTheyAreFollowed) {
  start(true);
  make("jellyfin.service", true);
  watch_->follow({"jellyfin"});
  expect(Kind::started, "systemd", "jellyfin");
  watch_->follow({});
  EXPECT_EQ(next_capability().state, State::off);
}

TEST_F(CgroupWatchTest, OnV1ItIsPolled) {
  start(false);
  make("docker/" + kId, false);
  write(at("docker/" + kId), true);
  expect(Kind::started, "docker", kId);
  write(at("docker/" + kId), false);
  expect(Kind::stopped, "docker", kId);
}

TEST_F(CgroupWatchTest, ATimeIsThatOfTheFirstProcess) {
  start(true);
  make("ollama.service", true);  // whose process is this test, which began a while ago
  const ContainerEvent event = next_event();
  const auto now = std::chrono::system_clock::now();
  EXPECT_LT(event.time, now);
  EXPECT_GT(event.time, now - std::chrono::hours(1));
}

TEST_F(CgroupWatchTest, WithoutCgroupsItSaysSo) {
  watch_ = std::move(*CgroupWatch::start({(folder_ / "none").string()}, reports_));
  watch_->follow({"ollama"});
  const os::Capability found = next_capability();
  EXPECT_EQ(found.state, State::off);
  EXPECT_THAT(found.reason, ::testing::HasSubstr("none"));
}

}  // namespace
}  // namespace andiron::probe
