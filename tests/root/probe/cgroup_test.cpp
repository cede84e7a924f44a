// SPDX-License-Identifier: MIT
// The watch on the kernel's own cgroup v2 tree: groups that get a process, lose it, and go.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <string>

#include "agent/probe/cgroup_watch.hpp"

namespace andiron::probe {
namespace {

using Kind = ContainerEvent::Kind;

/// A process that does nothing until it is ended.
class Idler {
 public:
  Idler() : pid_(::fork()) {
    while (pid_ == 0)
      ::pause();
  }
  ~Idler() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_;
};

class CgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      if (::access((root + "/cgroup.controllers").c_str(), F_OK) == 0) root_ = root;
    }
    if (root_.empty()) GTEST_SKIP() << "no cgroup v2 is mounted";
    slice_ = root_ + "/andiron-test-" + std::to_string(::getpid()) + ".slice";
    if (::mkdir(slice_.c_str(), 0755) != 0) GTEST_SKIP() << "cannot make cgroups in " << root_;
    name_ = "andiron-test-" + std::to_string(::getpid());
    group_ = slice_ + "/" + name_ + ".service";
    watch_ = std::move(*CgroupWatch::start({root_}, reports_));
    watch_->follow({name_});
    EXPECT_NE(std::get<os::Capability>(next()).state, os::Capability::State::off);
  }
  void TearDown() override {
    ::rmdir(group_.c_str());
    if (!slice_.empty()) ::rmdir(slice_.c_str());
  }
  void enter(const Idler& idler) const {
    std::ofstream procs(group_ + "/cgroup.procs");
    procs << idler.pid() << std::flush;
    ASSERT_TRUE(procs.good());
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
  /// The next event of our group; a busy machine's containers are told of too.
  Kind next_kind() {
    while (true) {
      const ContainerReport report = next();
      const auto* event = std::get_if<ContainerEvent>(&report);
      if (event != nullptr && event->name == name_) return event->kind;
    }
  }

  std::shared_ptr<ContainerMailbox> reports_ =
      std::make_shared<ContainerMailbox>(*ContainerMailbox::create());
  std::deque<ContainerReport> waiting_;
  std::string root_;
  std::string slice_;
  std::string name_;
  std::string group_;
  std::unique_ptr<CgroupWatch> watch_;
};

TEST_F(CgroupTest, TheKernelTellsOfStartsAndStops) {
  ASSERT_EQ(::mkdir(group_.c_str(), 0755), 0);
  {
    const Idler idler;
    enter(idler);
    EXPECT_EQ(next_kind(), Kind::started);
  }
  EXPECT_EQ(next_kind(), Kind::stopped);
  {  // a restart within the same group
    const Idler idler;
    enter(idler);
    EXPECT_EQ(next_kind(), Kind::started);
  }
  EXPECT_EQ(next_kind(), Kind::stopped);
  ASSERT_EQ(::rmdir(group_.c_str()), 0);
  ASSERT_EQ(::mkdir(group_.c_str(), 0755), 0);  // and one in a new group of that name
  {
    const Idler idler;
    enter(idler);
    EXPECT_EQ(next_kind(), Kind::started);
  }
  EXPECT_EQ(next_kind(), Kind::stopped);
}

}  // namespace
}  // namespace andiron::probe
