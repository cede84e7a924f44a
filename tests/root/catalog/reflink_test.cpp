// SPDX-License-Identifier: MIT
// Reflinked copies, on a file system that has them.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/base/unique_fd.hpp"
#include "agent/catalog/resolver.hpp"
#include "tests/root/os/loop_mount.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::catalog {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kSize = 3 << 20;

TEST(Reflink, SharesBlocksButCountsTwice) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount a file system";
  if (!testing::has_program("mkfs.btrfs")) GTEST_SKIP() << "mkfs.btrfs is not installed";
  const testing::TempDir dir;
  const testing::MountGuard mount =
      testing::loop_mount(dir.path(), "btrfs", {"mkfs.btrfs", "-q"}, 256 << 20);
  if (!mount.ok()) GTEST_SKIP() << "this machine cannot mount btrfs";

  const auto source = dir.write_random("random", kSize);
  const auto model = mount.point() / "m";
  std::filesystem::create_directory(model);
  std::filesystem::copy_file(source, model / "a.bin");
  {
    const UniqueFd from(::open((model / "a.bin").c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd to(::open((model / "b.bin").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    ASSERT_EQ(::fsync(from.get()), 0);
    ASSERT_EQ(::ioctl(to.get(), FICLONE, from.get()), 0);
    ASSERT_EQ(::fsync(to.get()), 0);
  }
  const auto cloned = resolve(model.string(), {}, {});
  ASSERT_TRUE(cloned) << cloned.error().message();
  EXPECT_EQ(cloned->files.size(), 2U);
  EXPECT_EQ(cloned->bytes, 2 * kSize);
  EXPECT_THAT(cloned->notes, ElementsAre(HasSubstr("share the disk's blocks")));

  std::filesystem::remove(model / "b.bin");
  std::filesystem::copy_file(source, model / "b.bin");
  const auto copied = resolve(model.string(), {}, {});
  ASSERT_TRUE(copied) << copied.error().message();
  EXPECT_THAT(copied->notes, ElementsAre(::testing::Not(HasSubstr("blocks"))));
}

}  // namespace
}  // namespace andiron::catalog
