// SPDX-License-Identifier: MIT
#include "agent/core/single_agent.hpp"

#include <gtest/gtest.h>

namespace andiron::core {
namespace {

os::AgentProcess agent(pid_t pid, std::uint64_t started, bool sees_us = true,
                       std::string runtime_dir = "") {
  return {pid, started, sees_us, std::move(runtime_dir), ""};
}

/// The pid of who holds in the place of an agent 10 that started at 500; 0: nobody.
pid_t holder(std::vector<os::AgentProcess> others) {
  const os::AgentProcesses found{agent(10, 500), std::move(others)};
  const os::AgentProcess* first = holder_before_us(found);
  return first == nullptr ? 0 : first->pid;
}

TEST(SingleAgent, WhoWasFirstHolds) {
  EXPECT_EQ(holder({}), 0);
  EXPECT_EQ(holder({agent(9, 501)}), 0);
  EXPECT_EQ(holder({agent(11, 499)}), 11);
  EXPECT_EQ(holder({agent(11, 499), agent(12, 498)}), 12);
}

TEST(SingleAgent, OfTwoAtOnceOneHolds) {
  EXPECT_EQ(holder({agent(9, 500)}), 9);
  EXPECT_EQ(holder({agent(11, 500)}), 0);
}

TEST(SingleAgent, WhoCannotSeeUsHolds) {
  EXPECT_EQ(holder({agent(12, 900, false)}), 12);
  EXPECT_EQ(holder({agent(11, 400), agent(12, 900, false)}), 12);
}

TEST(SingleAgent, OneWithAFolderOfItsOwnIsLeftOut) {
  EXPECT_EQ(holder({agent(9, 400, true, "/tmp/try/run")}), 0);
  EXPECT_EQ(holder({agent(9, 400, true, "/run/andiron")}), 9);
  EXPECT_EQ(holder({agent(12, 900, false, "/tmp/try/run")}), 0);
}

TEST(SingleAgent, SaysWhoItIs) {
  os::AgentProcess other = agent(12, 1);
  EXPECT_EQ(describe(other), "andirond with pid 12");
  other.cgroup = "/system.slice/andirond.service";
  EXPECT_EQ(describe(other), "andirond with pid 12 of andirond.service");
  other.cgroup = "/docker/" + std::string(64, 'a');
  EXPECT_EQ(describe(other), "andirond with pid 12 in docker container aaaaaaaaaaaa");
  other.cgroup = "/some/where";
  EXPECT_EQ(describe(other), "andirond with pid 12 in cgroup /some/where");
}

}  // namespace
}  // namespace andiron::core
