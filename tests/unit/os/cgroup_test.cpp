// SPDX-License-Identifier: MIT
#include "agent/os/cgroup.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "agent/base/units.hpp"
#include "agent/os/text_file.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

/// A tree like cgroup v2's, where a write replaces what the file holds.
class Protection : public ::testing::Test {
 protected:
  void in_cgroup(const std::string& path) {
    tree.write("proc/self/cgroup", "0::" + path + "\n");
    tree.write("cgroup/cgroup.controllers", "memory io\n");
  }
  void group(const std::string& path, const std::string& low = "0") {
    tree.write("cgroup" + path + "/memory.low", low + "\n");
    tree.write("cgroup" + path + "/memory.min", "0\n");
  }
  Result<MemoryProtection> find() { return MemoryProtection::find(tree / "proc", tree / "cgroup"); }
  std::uint64_t value(const std::string& file) {
    return read_number((tree / "cgroup").string() + file).value_or(UINT64_MAX);
  }

  testing::TempDir tree;
};

TEST_F(Protection, SetsItsOwnCgroupAndTheSliceOfItsOwn) {
  in_cgroup("/andiron.slice/andirond.service");
  group("/andiron.slice");
  group("/andiron.slice/andirond.service");
  const auto protection = find();
  ASSERT_TRUE(protection) << protection.error().message();
  EXPECT_EQ(protection->path(), "/andiron.slice/andirond.service");
  const auto kept = protection->keep(kGiB + 1, 4096);
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_FALSE(*kept) << **kept;
  for (const std::string path : {"/andiron.slice", "/andiron.slice/andirond.service"}) {
    EXPECT_EQ(value(path + "/memory.low"), kGiB) << "whole pages, as the kernel counts";
    EXPECT_EQ(value(path + "/memory.min"), 4096U);
  }
}

TEST_F(Protection, LeavesOtherCgroupsAloneAndSaysWhatTheyTakeOff) {
  in_cgroup("/system.slice/docker-1.scope");
  group("/system.slice", "8192");
  group("/system.slice/docker-1.scope");
  const auto protection = find();
  ASSERT_TRUE(protection);
  const auto kept = protection->keep(kGiB, 0);
  ASSERT_TRUE(kept);
  ASSERT_TRUE(*kept);
  EXPECT_EQ(**kept, "memory.low of /system.slice is 8.0 KiB, so that no more is kept below it");
  EXPECT_EQ(value("/system.slice/memory.low"), 8192U);
  EXPECT_EQ(value("/system.slice/docker-1.scope/memory.low"), kGiB);
  const auto less = protection->keep(8192, 0);
  ASSERT_TRUE(less);
  EXPECT_FALSE(*less);
}

TEST_F(Protection, TakesMaxForMoreThanAnything) {
  in_cgroup("/a/b");
  group("/a", "max");
  group("/a/b");
  const auto kept = find()->keep(kGiB, 0);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(*kept);
}

TEST_F(Protection, InAContainersOwnNamespaceTheBaseIsOurCgroup) {
  in_cgroup("/");
  group("");
  const auto protection = find();
  ASSERT_TRUE(protection) << protection.error().message();
  EXPECT_EQ(protection->path(), "/");
  ASSERT_TRUE(protection->keep(4096, 0));
  EXPECT_EQ(value("/memory.low"), 4096U);
}

TEST_F(Protection, SaysWhyThereIsNone) {
  const auto why = [&]() -> std::string {
    const auto protection = find();
    return protection ? "found" : protection.error().message();
  };
  EXPECT_NE(why().find("no cgroup v2"), std::string::npos) << why();
  tree.write("proc/self/cgroup", "4:memory:/\n");
  EXPECT_NE(why().find("no cgroup v2"), std::string::npos) << why();
  in_cgroup("/");
  EXPECT_NE(why().find("cgroup / has no memory.low"), std::string::npos) << why();
  in_cgroup("/user.slice");
  tree.write("cgroup/user.slice/cgroup.procs", "");
  EXPECT_NE(why().find("cgroup /user.slice has no memory.low"), std::string::npos) << why();
}

TEST_F(Protection, AWriteThatIsRefusedIsAnError) {
  in_cgroup("/a");
  group("/a");
  const auto protection = find();
  ASSERT_TRUE(protection);
  std::filesystem::remove(tree / "cgroup/a/memory.low");
  EXPECT_FALSE(protection->keep(4096, 0));
}

}  // namespace
}  // namespace andiron::os
