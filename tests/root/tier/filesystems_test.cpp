// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/component/tier/fill_fixture.hpp"
#include "tests/root/os/loop_mount.hpp"

namespace andiron::testing {
namespace {

using tier::FillMethod;
using tier::FillOutcome;
using tier::FillRequest;

/// Each file system has its own way with folios, read-ahead and the page cache of a file.
class FilesystemTest : public FillTest {
 protected:
  /// Every hold by every method, on a file below `folder`, which is cold before each.
  void fill_every_way(const Path& folder) {
    const std::uint64_t size = 40 * kMiB + 1234;
    const Path path = folder / "model";
    std::filesystem::copy_file(dir_.write_random("model", size), path);
    ::sync();
    for (const Hold hold : {Hold::cached, Hold::mapped, Hold::locked}) {
      for (const FillMethod method :
           {FillMethod::automatic, FillMethod::readahead_populate, FillMethod::buffered_reads}) {
        SCOPED_TRACE(std::string(to_string(hold)) + " " + std::to_string(static_cast<int>(method)));
        make_cold(path, 0, 0);
        ASSERT_LT(resident(path), size / 10);
        make_resident(path, 8 * kMiB, kMiB);
        FillRequest request = request_for({path}, hold);
        request.method = method;
        start(std::move(request), device_of(path));
        const FillOutcome outcome = FillTest::outcome();
        EXPECT_FALSE(outcome.error) << outcome.error->message();
        ASSERT_EQ(1U, outcome.held.size());
        EXPECT_EQ(size, outcome.held[0].resident_bytes);
        EXPECT_TRUE(outcome.held[0].resident_known);
        EXPECT_EQ(size, resident(path));
        if (hold != Hold::cached) {
          make_cold(path, 0, 0);
          EXPECT_EQ(size, resident(path));
        }
        EXPECT_EQ(hold == Hold::locked ? size : 0, outcome.held[0].locked_bytes);
      }
    }
  }

  void on_loop(const std::string& name, const std::vector<std::string>& mkfs, std::uint64_t bytes,
               const std::string& options = "") {
    if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    if (!has_program(mkfs.front())) GTEST_SKIP() << mkfs.front() << " is not installed";
    const MountGuard mount = loop_mount(dir_.path(), name, mkfs, bytes, options);
    if (!mount.ok()) GTEST_SKIP() << name << " cannot be mounted through a loop device here";
    fill_every_way(mount.point());
  }
};

TEST_F(FilesystemTest, Ext4) { on_loop("ext4", {"mkfs.ext4", "-q"}, 128 * kMiB); }

TEST_F(FilesystemTest, Xfs) { on_loop("xfs", {"mkfs.xfs", "-q"}, 512 * kMiB); }

TEST_F(FilesystemTest, Btrfs) { on_loop("btrfs", {"mkfs.btrfs", "-q"}, 256 * kMiB); }

TEST_F(FilesystemTest, CompressedBtrfs) {
  on_loop("btrfs", {"mkfs.btrfs", "-q"}, 256 * kMiB, "compress-force=zstd");
}

TEST_F(FilesystemTest, Overlay) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  for (const char* name : {"lower", "upper", "work"})
    std::filesystem::create_directory(dir_ / name);
  const std::string layers = "lowerdir=" + (dir_ / "lower").string() +
                             ",upperdir=" + (dir_ / "upper").string() +
                             ",workdir=" + (dir_ / "work").string();
  const MountGuard mount({"-t", "overlay", "overlay", "-o", layers}, dir_ / "merged");
  if (!mount.ok()) GTEST_SKIP() << "overlayfs cannot be mounted here";
  fill_every_way(mount.point());
}

}  // namespace
}  // namespace andiron::testing
