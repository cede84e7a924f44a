// SPDX-License-Identifier: MIT
// Residency and devices on the file systems that models lie on, each made on a loop device, against
// an independent reader: fincore(1), which here walks a mapping.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "agent/base/unique_fd.hpp"
#include "agent/base/units.hpp"
#include "agent/os/device.hpp"
#include "agent/os/file.hpp"
#include "agent/os/residency.hpp"
#include "agent/os/text_file.hpp"
#include "tests/root/os/loop_mount.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

using testing::loop_mount;
using testing::MountGuard;

constexpr std::uint64_t kSize = 4 * kMiB + 1234;
const std::uint64_t kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

#define NEEDS(program) \
  if (!testing::has_program(program)) GTEST_SKIP() << program << " is not installed"
#define MOUNTED(guard) \
  if (!(guard).ok()) GTEST_SKIP() << "this machine cannot mount it: " << (guard).point()

class Filesystems : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount file systems";
    NEEDS("fincore");
  }

  static void write_file(const std::filesystem::path& path, char fill = 0) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    ASSERT_TRUE(fd) << path;
    std::vector<char> bytes(kSize);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = fill != 0 ? fill : static_cast<char>((i * 2654435761U) >> 13U);
    }
    ASSERT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(::fsync(fd.get()), 0);
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }

  static void read_part(int fd, std::uint64_t offset, std::uint64_t length) {
    std::vector<char> buffer(length);
    ASSERT_EQ(::pread(fd, buffer.data(), length, static_cast<off_t>(offset)),
              static_cast<ssize_t>(length));
  }

  /// fincore counts whole pages.
  static std::optional<std::uint64_t> pages_by_fincore(const std::filesystem::path& path) {
    const std::string text =
        testing::output_of({"fincore", "--noheadings", "--output", "PAGES", path.string()});
    return parse_number(text);
  }
  /// util-linux 2.40 and later asks cachestat, which sees nothing through an overlay.
  static bool fincore_sees(const UniqueFd& fd) {
    static const bool walks =
        testing::output_of({"fincore", "--help"}).find("cachestat") == std::string::npos;
    return walks || filesystem_traits(fd.get()).value_or(FilesystemTraits{}).type != "overlay";
  }
  static std::uint64_t as_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage; }

  /// Nothing, a part and all of a file: what we say is what fincore says, and what was read.
  static void check(const std::filesystem::path& path) {
    SCOPED_TRACE(path.string());
    const Result<UniqueFd> fd = open_regular(path);
    ASSERT_TRUE(fd) << fd.error().message();
    ASSERT_EQ(::posix_fadvise(fd->get(), 0, 0, POSIX_FADV_RANDOM), 0);
    ASSERT_EQ(::posix_fadvise(fd->get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    expect_resident(*fd, path, 0, 0);
    read_part(fd->get(), kMiB, 512 * kKiB);
    // btrfs reads whole compressed extents of up to 128 KiB.
    expect_resident(*fd, path, 512 * kKiB, kMiB);
    read_part(fd->get(), 0, kSize);
    expect_resident(*fd, path, kSize, kSize);
    EXPECT_TRUE(missing_ranges(fd->get(), kSize)->empty());
  }

  static void expect_resident(const UniqueFd& fd, const std::filesystem::path& path,
                              std::uint64_t at_least, std::uint64_t at_most) {
    const Residency found = read_residency(fd.get(), kSize);
    ASSERT_TRUE(found.resident_bytes) << found.reason;
    EXPECT_GE(*found.resident_bytes, at_least);
    EXPECT_LE(*found.resident_bytes, at_most);
    if (fincore_sees(fd)) {
      const auto pages = pages_by_fincore(path);
      ASSERT_TRUE(pages);
      EXPECT_EQ(as_pages(*found.resident_bytes), *pages);
    }
    const Residency walked = read_residency(fd.get(), kSize, ResidencyMethod::mincore);
    ASSERT_TRUE(walked.resident_bytes) << walked.reason;
    EXPECT_EQ(*walked.resident_bytes, *found.resident_bytes);
    const auto missing = missing_ranges(fd.get(), kSize);
    ASSERT_TRUE(missing);
    EXPECT_EQ(total_length(*missing), kSize - *found.resident_bytes);
  }

  static DeviceTraits traits(const std::filesystem::path& path) {
    const Result<UniqueFd> fd = open_regular(path);
    EXPECT_TRUE(fd);
    return device_traits(fd->get()).value_or(DeviceTraits{});
  }
  static std::string type(const std::filesystem::path& path) {
    const Result<UniqueFd> fd = open_regular(path);
    EXPECT_TRUE(fd);
    return filesystem_traits(fd->get()).value_or(FilesystemTraits{}).type;
  }
  /// "7:3" of the loop device below a mount of a file system that has st_dev for it.
  static std::string device_of(const std::filesystem::path& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  }

  testing::TempDir dir;
};

TEST_F(Filesystems, Ext4) {
  NEEDS("mkfs.ext4");
  const MountGuard mount = loop_mount(dir.path(), "ext4", {"mkfs.ext4", "-q"}, 64 * kMiB);
  MOUNTED(mount);
  write_file(mount.point() / "model");
  check(mount.point() / "model");
  EXPECT_EQ(type(mount.point() / "model"), "ext4");
  const DeviceTraits found = traits(mount.point() / "model");
  EXPECT_EQ(found.lane, device_of(mount.point()));
  EXPECT_EQ(found.name.rfind("loop", 0), 0U);
  EXPECT_GT(found.read_ahead, 0U);
  EXPECT_GT(found.max_request, 0U);
}

TEST_F(Filesystems, Xfs) {
  NEEDS("mkfs.xfs");
  // The smallest that mkfs.xfs makes.
  const MountGuard mount = loop_mount(dir.path(), "xfs", {"mkfs.xfs", "-q"}, 320 * kMiB);
  MOUNTED(mount);
  write_file(mount.point() / "model");
  check(mount.point() / "model");
  EXPECT_EQ(type(mount.point() / "model"), "xfs");
  EXPECT_EQ(traits(mount.point() / "model").lane, device_of(mount.point()));
}

TEST_F(Filesystems, BtrfsWithSubvolumesAndCompression) {
  NEEDS("mkfs.btrfs");
  const MountGuard mount =
      loop_mount(dir.path(), "btrfs", {"mkfs.btrfs", "-q"}, 160 * kMiB, "compress-force=zstd");
  MOUNTED(mount);
  for (const char* volume : {"one", "two"}) {
    ASSERT_EQ(testing::run({"btrfs", "-q", "subvolume", "create", mount.point() / volume}), 0);
    write_file(mount.point() / volume / "model");
    write_file(mount.point() / volume / "compressed", 'a');
    check(mount.point() / volume / "model");
    check(mount.point() / volume / "compressed");
  }
  EXPECT_EQ(type(mount.point() / "one/model"), "btrfs");
  const DeviceTraits one = traits(mount.point() / "one/model");
  const DeviceTraits two = traits(mount.point() / "two/model");
  EXPECT_NE(device_of(mount.point() / "one/model"), device_of(mount.point() / "two/model"));
  EXPECT_EQ(one.lane, two.lane);
  EXPECT_EQ(one.lane.rfind("7:", 0), 0U) << one.lane;  // loop devices have major 7
  EXPECT_GT(one.read_ahead, 0U);
}

TEST_F(Filesystems, OverlayOnOneFileSystem) {
  NEEDS("mkfs.ext4");
  const MountGuard disk = loop_mount(dir.path(), "disk", {"mkfs.ext4", "-q"}, 64 * kMiB);
  MOUNTED(disk);
  for (const char* name : {"lower", "upper", "work"})
    std::filesystem::create_directory(disk.point() / name);
  write_file(disk.point() / "lower/model");
  const std::string base = disk.point().string();
  const MountGuard overlay(
      {"-t", "overlay", "-o",
       "lowerdir=" + base + "/lower,upperdir=" + base + "/upper,workdir=" + base + "/work",
       "overlay"},
      dir / "merged");
  MOUNTED(overlay);
  check(overlay.point() / "model");
  write_file(overlay.point() / "written");
  check(overlay.point() / "written");
  EXPECT_EQ(type(overlay.point() / "model"), "overlay");
  EXPECT_EQ(traits(overlay.point() / "model").lane, device_of(disk.point()));
  EXPECT_EQ(traits(overlay.point() / "written").lane, device_of(disk.point()));
}

TEST_F(Filesystems, OverlayOnAnotherFileSystem) {
  NEEDS("mkfs.ext4");
  NEEDS("mkfs.btrfs");
  const MountGuard low = loop_mount(dir.path(), "low", {"mkfs.btrfs", "-q"}, 160 * kMiB);
  const MountGuard high = loop_mount(dir.path(), "high", {"mkfs.ext4", "-q"}, 64 * kMiB);
  MOUNTED(low);
  MOUNTED(high);
  for (const char* name : {"upper", "work"})
    std::filesystem::create_directory(high.point() / name);
  write_file(low.point() / "model");
  const MountGuard overlay(
      {"-t", "overlay", "-o",
       "lowerdir=" + low.point().string() + ",upperdir=" + high.point().string() +
           "/upper,workdir=" + high.point().string() + "/work",
       "overlay"},
      dir / "merged");
  MOUNTED(overlay);
  check(overlay.point() / "model");
  write_file(overlay.point() / "written");
  check(overlay.point() / "written");
  // Each file by the device of its layer.
  EXPECT_EQ(traits(overlay.point() / "model").lane, traits(low.point() / "model").lane);
  EXPECT_EQ(traits(overlay.point() / "written").lane, device_of(high.point()));
}

TEST_F(Filesystems, CachestatIsNotAskedThroughAnOverlay) {
  const MountGuard overlay({"-t", "overlay", "-o",
                            "lowerdir=" + (dir.write("a/model", "x").parent_path()).string() + ":" +
                                (dir.write("b/other", "x").parent_path()).string(),
                            "overlay"},
                           dir / "merged");
  MOUNTED(overlay);
  const Result<UniqueFd> fd = open_regular(overlay.point() / "model");
  ASSERT_TRUE(fd);
  const Residency found = read_residency(fd->get(), 1, ResidencyMethod::cachestat);
  EXPECT_FALSE(found.resident_bytes);
  EXPECT_NE(found.reason, "");
}

TEST_F(Filesystems, TmpfsIsAllResident) {
  const MountGuard mount({"-t", "tmpfs", "-o", "size=16m", "tmpfs"}, dir / "tmpfs");
  MOUNTED(mount);
  write_file(mount.point() / "model");
  const Result<UniqueFd> fd = open_regular(mount.point() / "model");
  ASSERT_TRUE(fd);
  expect_resident(*fd, mount.point() / "model", kSize, kSize);
  EXPECT_TRUE(filesystem_traits(fd->get())->memory_backed);
  EXPECT_EQ(traits(mount.point() / "model").lane, "mem");
}

TEST_F(Filesystems, ABindMountIsTheSameDisk) {
  NEEDS("mkfs.ext4");
  const MountGuard disk = loop_mount(dir.path(), "disk", {"mkfs.ext4", "-q"}, 64 * kMiB);
  MOUNTED(disk);
  std::filesystem::create_directory(disk.point() / "models");
  write_file(disk.point() / "models/model");
  const MountGuard bind({"--bind", (disk.point() / "models").string()}, dir / "bound");
  MOUNTED(bind);
  check(bind.point() / "model");
  EXPECT_EQ(traits(bind.point() / "model").lane, device_of(disk.point()));
}

}  // namespace
}  // namespace andiron::os
