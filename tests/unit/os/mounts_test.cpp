// SPDX-License-Identifier: MIT
#include "agent/os/mounts.hpp"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

TEST(Mounts, ReadsAllFields) {
  const auto mounts = parse_mountinfo(
      "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].id, 36U);
  EXPECT_EQ(mounts[0].device, "98:0");
  EXPECT_EQ(mounts[0].root, "/mnt1");
  EXPECT_EQ(mounts[0].mount_point, "/mnt2");
  EXPECT_EQ(mounts[0].type, "ext3");
  EXPECT_EQ(mounts[0].source, "/dev/root");
  EXPECT_EQ(mounts[0].super_options, "rw,errors=continue");
}

TEST(Mounts, TakesAnyNumberOfOptionalFields) {
  const auto mounts = parse_mountinfo(
      "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "2 1 8:2 / /a rw shared:7 master:3 propagate_from:2 - xfs /dev/sda2 rw\n");
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].type, "ext4");
  EXPECT_EQ(mounts[1].type, "xfs");
}

TEST(Mounts, DecodesOctalEscapesAndNothingElse) {
  const auto mounts = parse_mountinfo(
      "1 0 8:1 / /my\\040models\\011x\\134y rw - ext4 /dev/sd\\04 rw\n"
      "2 0 8:1 / /a\\ rw - ext4 /dev/sda rw\n");
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].mount_point, "/my models\tx\\y");
  EXPECT_EQ(mounts[0].source, "/dev/sd\\04");
  EXPECT_EQ(mounts[1].mount_point, "/a\\");
}

TEST(Mounts, SkipsLinesThatCannotBeRead) {
  const auto mounts = parse_mountinfo(
      "\nnonsense\n"
      "x 0 8:1 / /a rw - ext4 /dev/sda rw\n"
      "1 0 8:1 / /a rw - ext4\n"
      "1 0 8:1 / /a rw shared:1 ext4 /dev/sda rw x\n"
      "9 0 8:1 / /good rw - ext4 none rw");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].mount_point, "/good");
}

TEST(Mounts, ReadsTheTableBelowTheGivenRoot) {
  const testing::TempDir proc;
  proc.write("self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
  const auto mounts = read_mounts(proc.path());
  ASSERT_TRUE(mounts);
  EXPECT_EQ(mounts->size(), 1U);
  EXPECT_FALSE(read_mounts(proc / "missing"));
}

TEST(Mounts, ReadsThisMachine) {
  const auto mounts = read_mounts();
  ASSERT_TRUE(mounts);
  EXPECT_FALSE(mounts->empty());
}

}  // namespace
}  // namespace andiron::os
