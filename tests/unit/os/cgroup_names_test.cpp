// SPDX-License-Identifier: MIT
#include "agent/os/cgroup_names.hpp"

#include <gtest/gtest.h>

#include <string>

namespace andiron::os {
namespace {

const std::string kId(64, 'a');

CgroupOwner with_id(const char* runtime) { return {runtime, kId, ""}; }
CgroupOwner with_name(const char* runtime, const char* name) { return {runtime, "", name}; }

TEST(CgroupNames, ContainersOfRuntimesHaveTheirIds) {
  EXPECT_EQ(owner_of_cgroup("system.slice", "docker-" + kId + ".scope"), with_id("docker"));
  EXPECT_EQ(owner_of_cgroup("docker", kId), with_id("docker"));
  EXPECT_EQ(owner_of_cgroup("machine.slice", "libpod-" + kId + ".scope"), with_id("podman"));
  EXPECT_EQ(owner_of_cgroup("libpod_parent", "libpod-" + kId), with_id("podman"));
  EXPECT_EQ(owner_of_cgroup("x.slice", "crio-" + kId + ".scope"), with_id("cri-o"));
  EXPECT_EQ(owner_of_cgroup("x.slice", "cri-containerd-" + kId + ".scope"), with_id("containerd"));
  EXPECT_EQ(owner_of_cgroup("pod1", kId), with_id("oci"));
}

TEST(CgroupNames, GuestsAndServicesHaveNames) {
  EXPECT_EQ(owner_of_cgroup("", "lxc.payload.ollama"), with_name("lxc", "ollama"));
  EXPECT_EQ(owner_of_cgroup("lxc", "101"), with_name("lxc", "101"));
  EXPECT_EQ(owner_of_cgroup("machine.slice", "machine-my\\x2dbox.scope"),
            with_name("machine", "my-box"));
  EXPECT_EQ(owner_of_cgroup("system.slice", "ollama.service"), with_name("systemd", "ollama"));
  EXPECT_EQ(owner_of_cgroup("a.slice", "nspawn@ollama.service"),
            with_name("systemd", "nspawn@ollama"));
  EXPECT_EQ(owner_of_cgroup("machine.slice", "systemd-nspawn@my\\x2dbox.service"),
            with_name("machine", "my-box"));
}

TEST(CgroupNames, GuestsHaveARootOfTheirOwn) {
  EXPECT_TRUE(with_name("lxc", "a").is_guest());
  EXPECT_TRUE(with_name("machine", "a").is_guest());
  EXPECT_FALSE(with_name("systemd", "a").is_guest());
  EXPECT_FALSE(with_id("docker").is_guest());
}

TEST(CgroupNames, TheRestIsNobodys) {
  for (const std::string& name :
       {std::string(""), std::string("system.slice"), std::string("init.scope"),
        std::string("session-1.scope"), std::string(".service"), std::string("lxc.payload."),
        std::string("machine-.scope"), std::string("machine-a\\x2fb.scope"),
        std::string("lxc.monitor.ollama"), "libpod-conmon-" + kId + ".scope",
        "crio-conmon-" + kId + ".scope", std::string("docker-abc.scope"),
        "docker-" + std::string(64, 'A') + ".scope", std::string(63, 'a'),
        std::string(200, 'n') + ".service", std::string("a\nb.service"),
        std::string("a\\x.service"), std::string("\\x0")}) {
    EXPECT_EQ(owner_of_cgroup("system.slice", name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace andiron::os
