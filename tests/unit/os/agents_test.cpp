// SPDX-License-Identifier: MIT
#include "agent/os/agents.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

using namespace std::string_literals;

struct Process {
  std::string pid;
  std::string name = "andirond";
  std::string ids = "0\t0\t0\t0";
  std::string pids = "";  // of all its namespaces; empty: its pid alone
  std::string state = "S";
  std::string started = "500";
  std::string program = "/usr/sbin/andirond";  // empty: we may not see it
  std::string command = "andirond\0"s;
  std::string cgroup = "0::/system.slice/andirond.service\n";
};

/// A tree like /proc, in which we are 100.
class Agents : public ::testing::Test {
 protected:
  Agents() {
    add({.pid = "100"});
    std::filesystem::create_directory_symlink("100", proc / "self");
    proc.write("meminfo", "");
  }
  void add(const Process& process) {
    const std::string& pid = process.pid;
    proc.write(pid + "/comm", process.name + "\n");
    proc.write(pid + "/status", "Name:\t" + process.name + "\nNSpid:\t" +
                                    (process.pids.empty() ? pid : process.pids) + "\nUid:\t" +
                                    process.ids + "\nGid:\t0\t0\t0\t0\n");
    std::string stat = pid + " (" + process.name + ") " + process.state;
    for (int field = 4; field < 22; ++field)
      stat += " " + std::to_string(field);
    proc.write(pid + "/stat", stat + " " + process.started + " 23 24\n");
    proc.write(pid + "/cmdline", process.command);
    proc.write(pid + "/cgroup", process.cgroup);
    if (!process.program.empty()) {
      std::filesystem::create_symlink(process.program, proc / (pid + "/exe"));
    }
  }
  AgentProcesses find() {
    auto found = find_agents(proc.path().string());
    EXPECT_TRUE(found) << found.error().message();
    return found ? std::move(*found) : AgentProcesses{};
  }

  testing::TempDir proc;
};

TEST_F(Agents, AloneThereIsOnlyUs) {
  add({.pid = "1", .name = "systemd", .program = "/usr/lib/systemd/systemd"});
  const AgentProcesses found = find();
  EXPECT_EQ(found.self.pid, 100);
  EXPECT_EQ(found.self.started, 500U);
  EXPECT_TRUE(found.others.empty());
}

TEST_F(Agents, OneOfAContainerCannotSeeUs) {
  add({.pid = "7",
       .pids = "7\t1",
       .started = "900",
       .cgroup = "5:cpu:/x\n4:memory:/docker/ab12\n0::/y\n"});
  add({.pid = "8", .program = "/usr/sbin/andirond (deleted)"});
  const AgentProcesses found = find();
  ASSERT_EQ(found.others.size(), 2U);
  const AgentProcess& first = found.others[found.others[0].pid == 7 ? 0 : 1];
  EXPECT_EQ(first.pid, 7);
  EXPECT_EQ(first.started, 900U);
  EXPECT_FALSE(first.sees_us);
  EXPECT_EQ(first.cgroup, "/docker/ab12");
  const AgentProcess& second = found.others[found.others[0].pid == 7 ? 1 : 0];
  EXPECT_TRUE(second.sees_us);
  EXPECT_EQ(second.cgroup, "/system.slice/andirond.service");
}

TEST_F(Agents, ToBeCalledSoIsNotEnough) {
  add({.pid = "2", .ids = "1000\t1000\t1000\t1000"});
  // A set-user-id program, called through a link with our name by a user.
  add({.pid = "3", .ids = "1000\t0\t0\t0", .program = ""});
  add({.pid = "4", .program = "/usr/bin/fusermount3"});
  // A namespace's own root is not the machine's.
  add({.pid = "5", .ids = "100000\t100000\t100000\t100000"});
  add({.pid = "6", .name = "andirondx"});
  add({.pid = "9", .state = "Z"});
  EXPECT_TRUE(find().others.empty());
}

TEST_F(Agents, WithoutLeaveToSeeItsProgramRootAndNameDo) {
  add({.pid = "2", .program = ""});
  EXPECT_EQ(find().others.size(), 1U);
}

TEST_F(Agents, ItsFolderIsOnItsCommandLine) {
  add({.pid = "2", .command = "andirond\0--runtime-dir\0/a b\0--foreground\0"s});
  add({.pid = "3", .command = "/usr/sbin/andirond\0--runtime-dir=/c\0"s});
  add({.pid = "4", .command = "andirond\0--runtime-dir\0"s});
  std::string folders;
  for (const AgentProcess& other : find().others)
    folders += std::to_string(other.pid) + ":" + other.runtime_dir + ";";
  EXPECT_NE(folders.find("2:/a b;"), std::string::npos) << folders;
  EXPECT_NE(folders.find("3:/c;"), std::string::npos) << folders;
  EXPECT_NE(folders.find("4:;"), std::string::npos) << folders;
}

TEST_F(Agents, OneThatEndsWhileWeLookIsNone) {
  add({.pid = "2"});
  std::filesystem::remove(proc / "2/stat");
  add({.pid = "3"});
  std::filesystem::remove(proc / "3/status");
  proc.write("4/comm", "andirond\n");
  proc.write("5/unrelated", "");
  EXPECT_TRUE(find().others.empty());
}

TEST_F(Agents, WithoutOurselvesInProcItIsAnError) {
  std::filesystem::remove(proc / "self");
  EXPECT_FALSE(find_agents(proc.path().string()));
}

TEST_F(Agents, ThisMachineCanBeLookedAt) {
  const auto found = find_agents();
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->self.pid, ::getpid());
  EXPECT_GT(found->self.started, 0U);
}

}  // namespace
}  // namespace andiron::os
