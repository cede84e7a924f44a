// SPDX-License-Identifier: MIT
#include "agent/os/probe_os.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

using ::testing::ElementsAre;
using State = Capability::State;

std::vector<std::string> names_of(const std::vector<Capability>& capabilities) {
  std::vector<std::string> names;
  for (const Capability& capability : capabilities)
    names.push_back(capability.name);
  return names;
}

const Capability& find(const std::vector<Capability>& capabilities, const std::string& name) {
  return *std::find_if(capabilities.begin(), capabilities.end(),
                       [&](const Capability& capability) { return capability.name == name; });
}

TEST(ProbeOs, SaysSomethingOfEachAndLeavesNothingBehind) {
  const testing::TempDir dir;
  const std::vector<Capability> found = probe_os(dir.path());
  EXPECT_THAT(names_of(found),
              ElementsAre("cachestat", "mincore", "mlock", "psi-memory", "psi-io", "cgroup-memory",
                          "direct-io", "populate-read", "unified-memory"));
  for (const Capability& capability : found) {
    EXPECT_FALSE(capability.reason.empty()) << capability.name;
    RecordProperty(capability.name, capability.reason);
  }
  // Every kernel that this is built on has these for a file of our own.
  EXPECT_NE(find(found, "mincore").state, State::off) << find(found, "mincore").reason;
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(ProbeOs, GoesOnWithoutAFolder) {
  const std::vector<Capability> found = probe_os("/nowhere/at/all");
  ASSERT_EQ(found.size(), 9U);
  EXPECT_EQ(find(found, "cachestat").state, State::off);
  EXPECT_NE(find(found, "cachestat").remedy, "");
  EXPECT_EQ(names_of(found).at(6), "direct-io");
}

TEST(ProbeOs, TellsAnOrdinaryUserOfItsLimits) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  const testing::TempDir dir;
  ASSERT_EQ(::chown(dir.path().c_str(), 65534, 65534), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || ::chdir(dir.path().c_str()) != 0 ||
        ::setgid(65534) != 0 || ::setuid(65534) != 0) {
      ::_exit(100);
    }
    const std::vector<Capability> found = probe_os(".");
    const Capability& mlock = find(found, "mlock");
    if (mlock.state != State::degraded) ::_exit(1);
    if (mlock.reason.find("1.0 MiB") == std::string::npos || mlock.remedy.empty()) ::_exit(2);
    if (find(found, "mincore").state != State::degraded) ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace andiron::os
