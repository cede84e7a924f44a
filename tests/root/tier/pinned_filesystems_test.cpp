// SPDX-License-Identifier: MIT
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/os/pinned_mount.hpp"
#include "tests/component/tier/pinned_fixture.hpp"
#include "tests/root/os/loop_mount.hpp"

namespace andiron::testing {
namespace {

/// Copies into the tier's own tmpfs, from each file system, which has its own way with O_DIRECT.
class PinnedFilesystemTest : public PinnedTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      GTEST_SKIP() << "no mount namespace of our own to be had";
    }
    places_ = {(dir_ / "writable").string(), (dir_ / "readable").string()};
    std::filesystem::create_directory(places_.writable);
    std::filesystem::create_directory(places_.readable);
    auto mount = os::open_pinned_mount(places_, 512 * kMiB);
    ASSERT_TRUE(mount) << mount.error().message();
    huge_ = mount->huge;
    folder_ = std::make_shared<const tier::PinnedFolder>(
        tier::PinnedFolder::open(std::move(*mount), places_.readable).value());
  }
  void TearDown() override {
    folder_.reset();
    if (!places_.writable.empty()) {
      EXPECT_TRUE(os::remove_pinned_mount(places_));
    }
  }

  /// `stays`: bytes of the source that may be in the page cache afterwards.
  void copy_every_size(const Path& below, std::uint64_t stays = 0) {
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096},
          std::uint64_t{4097}, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 70 * kMiB + 5}) {
      SCOPED_TRACE(size);
      const Path path = below / "model";
      std::filesystem::remove(path);
      std::filesystem::copy_file(dir_.write_random("model", size), path);
      ::sync();
      make_cold(path);
      const auto outcome = fill(request_for({path}));
      ASSERT_FALSE(outcome.error) << outcome.error->message();
      const tier::PinnedFile& held = outcome.held.at(0);
      EXPECT_LE(resident(path), stays);
      // All but the last, which is not whole.
      if (huge_) {
        EXPECT_LE(size / (2 * kMiB) * (2 * kMiB), held.huge_bytes);
      }
      expect_copy(held, path);
      for (const std::string& note : outcome.notes)
        RecordProperty("note", note);
    }
  }

  void on_loop(const std::string& name, const std::vector<std::string>& mkfs, std::uint64_t bytes,
               const std::string& options = "", std::uint64_t stays = 0) {
    if (!has_program(mkfs.front())) GTEST_SKIP() << mkfs.front() << " is not installed";
    const MountGuard mount = loop_mount(dir_.path(), name, mkfs, bytes, options);
    if (!mount.ok()) GTEST_SKIP() << name << " cannot be mounted through a loop device here";
    copy_every_size(mount.point(), stays);
  }

  os::PinnedPlaces places_;
  bool huge_ = false;
};

TEST_F(PinnedFilesystemTest, Ext4) { on_loop("ext4", {"mkfs.ext4", "-q"}, 160 * kMiB); }

TEST_F(PinnedFilesystemTest, Xfs) { on_loop("xfs", {"mkfs.xfs", "-q"}, 512 * kMiB); }

TEST_F(PinnedFilesystemTest, Btrfs) { on_loop("btrfs", {"mkfs.btrfs", "-q"}, 256 * kMiB); }

/// Reads by O_DIRECT come out of the page cache there; it is given back.
TEST_F(PinnedFilesystemTest, CompressedBtrfs) {
  on_loop("btrfs", {"mkfs.btrfs", "-q"}, 256 * kMiB, "compress-force=zstd");
}

TEST_F(PinnedFilesystemTest, Overlay) {
  for (const char* name : {"lower", "upper", "work"})
    std::filesystem::create_directory(dir_ / name);
  const std::string layers = "lowerdir=" + (dir_ / "lower").string() +
                             ",upperdir=" + (dir_ / "upper").string() +
                             ",workdir=" + (dir_ / "work").string();
  const MountGuard mount({"-t", "overlay", "overlay", "-o", layers}, dir_ / "merged");
  if (!mount.ok()) GTEST_SKIP() << "overlayfs cannot be mounted here";
  copy_every_size(mount.point());
}

TEST_F(PinnedFilesystemTest, Tmpfs) {
  const MountGuard mount({"-t", "tmpfs", "-o", "size=160m", "tmpfs"}, dir_ / "tmpfs");
  ASSERT_TRUE(mount.ok());
  copy_every_size(mount.point(), 160 * kMiB);
}

/// No room: refused with a code, and no half copy stays.
TEST_F(PinnedFilesystemTest, AFullTmpfsIsNoHeadroom) {
  const Path path = dir_.write_random("large", 40 * kMiB);
  TearDown();
  auto mount = os::open_pinned_mount(places_, 16 * kMiB);
  ASSERT_TRUE(mount) << mount.error().message();
  folder_ = std::make_shared<const tier::PinnedFolder>(
      tier::PinnedFolder::open(std::move(*mount), places_.readable).value());
  const auto outcome = fill(request_for({path}));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::no_headroom, outcome.error->errc()) << outcome.error->message();
  EXPECT_TRUE(std::filesystem::is_empty(Path(places_.writable) / ".copies"));
}

}  // namespace
}  // namespace andiron::testing
