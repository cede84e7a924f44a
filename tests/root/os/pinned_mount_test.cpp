// SPDX-License-Identifier: MIT
#include "agent/os/pinned_mount.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "agent/base/units.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

using std::filesystem::path;

/// Mounts in a namespace of this process's own, where the machine lets it have one.
class PinnedMountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      GTEST_SKIP() << "no mount namespace of our own to be had";
    }
    std::filesystem::create_directories(dir_ / "state/pinned");
    std::filesystem::create_directories(dir_ / "run/pinned");
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_TRUE(remove_pinned_mount(places()));
    }
  }
  PinnedPlaces places() const {
    return {(dir_ / "state/pinned").string(), (dir_ / "run/pinned").string()};
  }
  path writable() const { return dir_ / "state/pinned"; }
  path readable() const { return dir_ / "run/pinned"; }

  testing::TempDir dir_;
};

TEST_F(PinnedMountTest, TheReadOnlyFaceIsReadOnlyForTheOwnerToo) {
  const auto mount = open_pinned_mount(places(), 64 * kMiB);
  ASSERT_TRUE(mount) << mount.error().message();
  EXPECT_TRUE(mount->made);
  std::ofstream(writable() / "copy") << "bytes";
  ASSERT_EQ(0, ::chown((writable() / "copy").c_str(), 12345, 12345));
  ASSERT_EQ(0, ::chmod((writable() / "copy").c_str(), 0644));

  const std::string copy = "copy";
  const pid_t owner = ::fork();
  if (owner == 0) {
    // From there: the way there may be closed to others.
    if (::chdir(readable().c_str()) != 0) ::_exit(10);
    if (::setgid(12345) != 0 || ::setuid(12345) != 0) ::_exit(1);
    if (::open(copy.c_str(), O_WRONLY) >= 0 || errno != EROFS) ::_exit(2);
    if (::truncate(copy.c_str(), 0) == 0 || errno != EROFS) ::_exit(3);
    if (::chmod(copy.c_str(), 0666) == 0 || errno != EROFS) ::_exit(4);
    if (::unlink(copy.c_str()) == 0) ::_exit(5);
    const int fd = ::open(copy.c_str(), O_RDONLY);
    if (fd < 0) ::_exit(6);
    const std::string again = "/proc/self/fd/" + std::to_string(fd);
    if (::open(again.c_str(), O_RDWR) >= 0 || errno != EROFS) ::_exit(7);
    if (::fchmod(fd, 0666) == 0 || errno != EROFS) ::_exit(8);
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) == 1 && byte == 'b' ? 0 : 9);
  }
  int status = 0;
  ASSERT_EQ(owner, ::waitpid(owner, &status, 0));
  EXPECT_EQ(0, WEXITSTATUS(status)) << "the step that went through";
}

TEST_F(PinnedMountTest, WhatIsThereIsAdoptedWithAllThatIsInIt) {
  const auto first = open_pinned_mount(places(), 64 * kMiB);
  ASSERT_TRUE(first) << first.error().message();
  std::ofstream(writable() / "copy") << "bytes";
  for (const path& gone : {path(), writable(), readable()}) {
    SCOPED_TRACE(gone);
    if (!gone.empty()) {
      ASSERT_EQ(0, ::umount2(gone.c_str(), MNT_DETACH));
    }
    const auto again = open_pinned_mount(places(), 64 * kMiB);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_FALSE(again->made);
    EXPECT_EQ(first->huge, again->huge);
    EXPECT_EQ(first->noswap, again->noswap);
    EXPECT_EQ(5U, std::filesystem::file_size(readable() / "copy"));
    EXPECT_EQ(0, ::access(writable().c_str(), W_OK));
    EXPECT_EQ(-1, ::open((readable() / "new").c_str(), O_WRONLY | O_CREAT, 0600));
    EXPECT_EQ(EROFS, errno);
  }
}

TEST_F(PinnedMountTest, ItIsBoundedAndTheBoundCanBeMoved) {
  const auto fill = [this](std::uint64_t size) {
    std::ofstream file(writable() / "filler", std::ios::binary);
    file << std::string(size, 'x') << std::flush;
    const bool good = file.good();
    file.close();
    std::filesystem::remove(writable() / "filler");
    return good;
  };
  ASSERT_TRUE(open_pinned_mount(places(), 16 * kMiB));
  EXPECT_FALSE(fill(24 * kMiB));
  ASSERT_TRUE(open_pinned_mount(places(), 48 * kMiB));
  EXPECT_TRUE(fill(24 * kMiB));
}

TEST_F(PinnedMountTest, SomethingElseThatIsMountedThereIsLeftAlone) {
  ASSERT_EQ(0, ::mount("proc", readable().c_str(), "proc", 0, nullptr));
  const auto mount = open_pinned_mount(places(), 16 * kMiB);
  ASSERT_FALSE(mount);
  EXPECT_EQ(Errc::unavailable, mount.error().errc());
  ASSERT_EQ(0, ::umount2(readable().c_str(), MNT_DETACH));
  ASSERT_EQ(0, ::mount("other", readable().c_str(), "tmpfs", 0, nullptr));
  ASSERT_EQ(0, ::mount("another", writable().c_str(), "tmpfs", 0, nullptr));
  EXPECT_FALSE(open_pinned_mount(places(), 16 * kMiB));
}

TEST_F(PinnedMountTest, RemovedItGivesItsMemoryBack) {
  ASSERT_TRUE(open_pinned_mount(places(), 64 * kMiB));
  std::ofstream(writable() / "copy") << std::string(kMiB, 'x');
  ASSERT_TRUE(remove_pinned_mount(places()));
  EXPECT_TRUE(std::filesystem::is_empty(writable()));
  EXPECT_TRUE(std::filesystem::is_empty(readable()));
  EXPECT_TRUE(remove_pinned_mount(places()));  // not there is no error
}

}  // namespace
}  // namespace andiron::os
