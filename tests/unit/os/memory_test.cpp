// SPDX-License-Identifier: MIT
#include "agent/os/memory.hpp"

#include <gtest/gtest.h>

#include <string>

#include "agent/base/units.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       33554432 kB\n"
    "MemFree:         1048576 kB\n"
    "MemAvailable:   20971520 kB\n"
    "SwapTotal:       2097152 kB\n"
    "SwapFree:        1048576 kB\n"
    "Mlocked:             512 kB\n";

/// A machine of 32 GiB, of which 20 are available.
class Memory : public ::testing::Test {
 protected:
  Memory() { tree.write("proc/meminfo", kMeminfo); }

  void cgroup_of_self(const std::string& text) { tree.write("proc/self/cgroup", text); }
  void mountinfo(const std::string& text) { tree.write("proc/self/mountinfo", text); }
  void v1(const std::string& path, const std::string& limit, std::uint64_t usage,
          std::uint64_t file, const std::string& hierarchical = "9223372036854771712") {
    const std::string folder = "cgroup/memory" + path + "/";
    tree.write(folder + "memory.limit_in_bytes", limit + "\n");
    tree.write(folder + "memory.usage_in_bytes", std::to_string(usage) + "\n");
    // The plain names count this cgroup alone, the total ones its children too.
    tree.write(folder + "memory.stat",
               "inactive_file 1\nactive_file 1\nhierarchical_memory_limit " + hierarchical +
                   "\ntotal_inactive_file " + std::to_string(file / 2) + "\ntotal_active_file " +
                   std::to_string(file - file / 2) + "\n");
  }
  void v2(const std::string& path, const std::string& max, const std::string& high,
          std::uint64_t current, std::uint64_t file, const std::string& base = "cgroup") {
    const std::string folder = base + path + "/";
    tree.write(folder + "memory.max", max + "\n");
    tree.write(folder + "memory.high", high + "\n");
    tree.write(folder + "memory.current", std::to_string(current) + "\n");
    tree.write(folder + "memory.stat", "anon 5\nfile 7\ninactive_file " + std::to_string(file / 2) +
                                           "\nactive_file " + std::to_string(file - file / 2) +
                                           "\n");
  }
  MemoryView read() {
    const Result<MemoryView> view = read_memory(tree / "proc", tree / "cgroup");
    EXPECT_TRUE(view) << view.error().message();
    return view.value_or(MemoryView{});
  }

  testing::TempDir tree;
};

TEST_F(Memory, IsTheMachinesWithoutCgroups) {
  const MemoryView view = read();
  EXPECT_EQ(view.limit, 32 * kGiB);
  EXPECT_EQ(view.available, 20 * kGiB);
  EXPECT_EQ(view.swap_total, 2 * kGiB);
  EXPECT_EQ(view.swap_free, kGiB);
  EXPECT_EQ(view.mlocked, 512 * kKiB);
  EXPECT_EQ(view.zfs_arc_reclaimable, 0U);
  EXPECT_EQ(view.limited_by, "machine");
}

TEST_F(Memory, TakesMemFreeFromAKernelWithoutMemAvailable) {
  tree.write("proc/meminfo", "MemTotal: 1024 kB\nMemFree: 512 kB\n");
  EXPECT_EQ(read().available, 512 * kKiB);
}

TEST_F(Memory, IsAnErrorWithoutMemTotal) {
  tree.write("proc/meminfo", "MemFree: 512 kB\nMemTotal: many kB\n");
  EXPECT_FALSE(read_memory(tree / "proc", tree / "cgroup"));
  EXPECT_FALSE(read_memory(tree / "none", tree / "cgroup"));
}

TEST_F(Memory, IgnoresUnlimitedCgroups) {
  cgroup_of_self("4:memory:/user\n0::/\n");
  v1("", "9223372036854771712", kGiB, 0);
  v1("/user", "9223372036854710272", kGiB, 0);  // with 64 KiB pages
  EXPECT_EQ(read().limit, 32 * kGiB);
  EXPECT_EQ(read().limited_by, "machine");

  cgroup_of_self("0::/a\n");
  tree.write("cgroup/cgroup.controllers", "memory\n");
  v2("/a", "max", "max", 30 * kGiB, 0);
  EXPECT_EQ(read().limit, 32 * kGiB);
  EXPECT_EQ(read().available, 20 * kGiB);
}

TEST_F(Memory, CountsFilePagesOfAV1CgroupAsFree) {
  cgroup_of_self("9:pids:/x\n4:memory,hugetlb:/docker/ab12\n");
  v1("/docker/ab12", std::to_string(8 * kGiB), 7 * kGiB, 5 * kGiB);
  const MemoryView view = read();
  EXPECT_EQ(view.limit, 8 * kGiB);
  EXPECT_EQ(view.available, 6 * kGiB);
  EXPECT_EQ(view.limited_by, "/docker/ab12");
}

TEST_F(Memory, SeesTheV1LimitOfAnAncestorThatIsHidden) {
  cgroup_of_self("4:memory:/\n");
  v1("", "9223372036854771712", kGiB, 0, std::to_string(4 * kGiB));
  EXPECT_EQ(read().limit, 4 * kGiB);
  EXPECT_EQ(read().available, 3 * kGiB);
}

TEST_F(Memory, TakesTheTightestAncestorOfV2) {
  tree.write("cgroup/cgroup.controllers", "memory\n");
  cgroup_of_self("0::/home.slice/ai.slice/andiron.service\n");
  v2("/home.slice/ai.slice/andiron.service", "max", "max", kGiB, 0);
  v2("/home.slice/ai.slice", std::to_string(6 * kGiB), "max", 2 * kGiB, kGiB);
  v2("/home.slice", std::to_string(10 * kGiB), "max", 9 * kGiB, kGiB);
  const MemoryView view = read();
  EXPECT_EQ(view.limit, 6 * kGiB);
  EXPECT_EQ(view.limited_by, "/home.slice/ai.slice");
  // Siblings have used up the outer one, though it is the wider of the two.
  EXPECT_EQ(view.available, 2 * kGiB);
}

TEST_F(Memory, CountsMemoryHigh) {
  tree.write("cgroup/cgroup.controllers", "memory\n");
  cgroup_of_self("0::/a\n");
  v2("/a", std::to_string(8 * kGiB), std::to_string(3 * kGiB), 4 * kGiB, kGiB);
  EXPECT_EQ(read().limit, 3 * kGiB);
  EXPECT_EQ(read().available, 0U);
}

TEST_F(Memory, SeesTheRootOfAContainersCgroupNamespace) {
  tree.write("cgroup/cgroup.controllers", "memory\n");
  cgroup_of_self("0::/\n");
  v2("", std::to_string(2 * kGiB), "max", kGiB, kGiB / 2);
  EXPECT_EQ(read().limit, 2 * kGiB);
  EXPECT_EQ(read().limited_by, "/");
  // A process that was moved above the namespace's root: what is mounted is all that we see.
  cgroup_of_self("0::/../other\n");
  EXPECT_EQ(read().limit, 2 * kGiB);
}

TEST_F(Memory, FollowsABoundCgroupMountWithoutANamespace) {
  cgroup_of_self("4:memory:/docker/ab12/inner\n");
  mountinfo("5 1 0:30 /docker/ab12 " + (tree / "cgroup/memory").string() +
            " ro - cgroup cgroup rw,memory\n");
  v1("", std::to_string(4 * kGiB), kGiB, 0);
  v1("/inner", std::to_string(3 * kGiB), kGiB, 0);
  EXPECT_EQ(read().limit, 3 * kGiB);
  EXPECT_EQ(read().limited_by, "/inner");
  cgroup_of_self("4:memory:/docker/ab12\n");
  EXPECT_EQ(read().limit, 4 * kGiB);
}

TEST_F(Memory, ReadsBothSidesOfAHybrid) {
  cgroup_of_self("4:memory:/a\n0::/b\n");
  tree.write("cgroup/unified/cgroup.controllers", "\n");
  v1("/a", std::to_string(5 * kGiB), kGiB, 0);
  EXPECT_EQ(read().limit, 5 * kGiB);
  v2("/b", std::to_string(4 * kGiB), "max", kGiB, 0, "cgroup/unified");
  EXPECT_EQ(read().limit, 4 * kGiB);
}

TEST_F(Memory, SaysWhatTheArcCouldGive) {
  tree.write("proc/spl/kstat/zfs/arcstats",
             "13 1 0x01 96 26112 1 2\nname type data\nc_min 4 1073741824\nsize 4 5368709120\n");
  EXPECT_EQ(read().zfs_arc_reclaimable, 4 * kGiB);
}

TEST_F(Memory, FindsATegra) {
  tree.write("sys/firmware/devicetree/base/compatible",
             std::string("nvidia,p3737-0000+p3701-0000\0nvidia,tegra234\0", 45));
  const UnifiedMemory unified = detect_unified_memory(tree / "sys", tree / "proc");
  EXPECT_TRUE(unified.unified);
  EXPECT_NE(unified.why.find("nvidia,tegra234"), std::string::npos) << unified.why;
}

TEST_F(Memory, FindsAGb10ButNoOrdinaryGpu) {
  tree.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  tree.write("sys/bus/pci/devices/0000:01:00.0/device", "0x2684\n");
  tree.write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
  tree.write("sys/bus/pci/devices/0000:00:02.0/device", "0x2e12\n");
  EXPECT_FALSE(detect_unified_memory(tree / "sys", tree / "proc").unified);
  tree.write("sys/bus/pci/devices/000f:01:00.0/vendor", "0x10de\n");
  tree.write("sys/bus/pci/devices/000f:01:00.0/device", "0x2e12\n");
  EXPECT_TRUE(detect_unified_memory(tree / "sys", tree / "proc").unified);
}

TEST(MemoryHere, IsSane) {
  const Result<MemoryView> view = read_memory();
  ASSERT_TRUE(view) << view.error().message();
  EXPECT_GT(view->limit, 64 * kMiB);
  EXPECT_LE(view->available, view->limit);
  EXPECT_FALSE(view->limited_by.empty());
}

}  // namespace
}  // namespace andiron::os
