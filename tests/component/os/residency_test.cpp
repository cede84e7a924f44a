// SPDX-License-Identifier: MIT
#include "agent/os/residency.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "agent/base/unique_fd.hpp"
#include "agent/base/units.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

const std::uint64_t kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

/// Cold files on the disk of the tests; asserts only what holds right after a read.
class ResidencyOf : public ::testing::Test {
 protected:
  void SetUp() override {
    struct statfs status {};
    ASSERT_EQ(::statfs(dir.path().c_str(), &status), 0);
    if (status.f_type == TMPFS_MAGIC) GTEST_SKIP() << "the tests' folder is on tmpfs";
  }

  UniqueFd open_cold(std::uint64_t size) {
    const std::string path = dir.write_random("file-" + std::to_string(size), size);
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(fd);
    // No readahead: only what is asked for is read. Then all of it is let go.
    EXPECT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM), 0);
    EXPECT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    return fd;
  }
  static void read_pages(const UniqueFd& fd, std::uint64_t offset, std::uint64_t length) {
    std::vector<char> buffer(length);
    ASSERT_GT(::pread(fd.get(), buffer.data(), length, static_cast<off_t>(offset)), 0);
  }
  static std::vector<ResidencyMethod> methods() {
    std::vector<ResidencyMethod> all{ResidencyMethod::automatic, ResidencyMethod::mincore};
    const UniqueFd fd(::memfd_create("probe", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(fd.get(), 1), 0);
    if (read_residency(fd.get(), 1, ResidencyMethod::cachestat).resident_bytes) {
      all.push_back(ResidencyMethod::cachestat);
    }
    return all;
  }
  static std::uint64_t resident(const UniqueFd& fd, std::uint64_t size, ResidencyMethod method) {
    const Residency found = read_residency(fd.get(), size, method);
    EXPECT_TRUE(found.resident_bytes) << found.reason;
    EXPECT_EQ(found.reason, "");
    return found.resident_bytes.value_or(~std::uint64_t{0});
  }

  testing::TempDir dir;
};

TEST_F(ResidencyOf, EverySizeAroundAPage) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, kPage - 1, kPage, kPage + 1,
                                   2 * kPage + 17, 100 * kPage}) {
    const UniqueFd fd = open_cold(size);
    for (const ResidencyMethod method : methods()) {
      EXPECT_EQ(resident(fd, size, method), 0U) << size;
    }
    if (size > 0) read_pages(fd, 0, size);
    for (const ResidencyMethod method : methods()) {
      EXPECT_EQ(resident(fd, size, method), size);
    }
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    for (const ResidencyMethod method : methods()) {
      EXPECT_EQ(resident(fd, size, method), 0U) << size;
    }
  }
}

TEST_F(ResidencyOf, APartCountsItsPagesAndTheTailItsBytes) {
  const std::uint64_t size = 64 * kPage + 100;
  const UniqueFd fd = open_cold(size);
  read_pages(fd, 3 * kPage, 2 * kPage);
  read_pages(fd, 10 * kPage, kPage);
  for (const ResidencyMethod method : methods()) {
    EXPECT_EQ(resident(fd, size, method), 3 * kPage);
  }
  read_pages(fd, 64 * kPage, 100);
  for (const ResidencyMethod method : methods()) {
    EXPECT_EQ(resident(fd, size, method), 3 * kPage + 100);
    // Of less than the file: what lies beyond does not count.
    EXPECT_EQ(resident(fd, 4 * kPage, method), kPage);
    EXPECT_EQ(resident(fd, 4 * kPage + 1, method), kPage + 1);
  }
}

TEST_F(ResidencyOf, MissingRangesAreTheComplement) {
  const std::uint64_t size = 64 * kPage + 100;
  const UniqueFd fd = open_cold(size);
  EXPECT_EQ(*missing_ranges(fd.get(), size), (std::vector<ByteRange>{{0, size}}));
  read_pages(fd, 3 * kPage, 2 * kPage);
  read_pages(fd, 10 * kPage, kPage);
  EXPECT_EQ(*missing_ranges(fd.get(), size),
            (std::vector<ByteRange>{
                {0, 3 * kPage}, {5 * kPage, 5 * kPage}, {11 * kPage, size - 11 * kPage}}));
  // A gap of one page is swallowed, one of two is not.
  EXPECT_EQ(*missing_ranges(fd.get(), size, 2 * kPage),
            (std::vector<ByteRange>{{0, 3 * kPage}, {5 * kPage, size - 5 * kPage}}));
  // Past the limit the rest is one range.
  EXPECT_EQ(*missing_ranges(fd.get(), size, 0, 2),
            (std::vector<ByteRange>{{0, 3 * kPage}, {5 * kPage, size - 5 * kPage}}));
  EXPECT_EQ(*missing_ranges(fd.get(), size, 0, 1), (std::vector<ByteRange>{{0, size}}));
  read_pages(fd, 0, size);
  EXPECT_TRUE(missing_ranges(fd.get(), size)->empty());
  EXPECT_TRUE(missing_ranges(fd.get(), 0)->empty());
}

TEST_F(ResidencyOf, OnlyTheTailIsMissing) {
  const std::uint64_t size = 8 * kPage + 5;
  const UniqueFd fd = open_cold(size);
  read_pages(fd, 0, 8 * kPage);
  EXPECT_EQ(*missing_ranges(fd.get(), size), (std::vector<ByteRange>{{8 * kPage, 5}}));
}

TEST_F(ResidencyOf, RangesAcrossTheChunksOfTheWalkAreWhole) {
  // Chunks of 64 MiB where cachestat is asked: one with a page at its start, one with nothing, one
  // with a page near its start, a short last one that is all there. Sparse, so it costs no disk.
  const std::uint64_t size = 192 * kMiB + 1000;
  const std::string path = dir.write("sparse", "");
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM), 0);
  read_pages(fd, 0, kPage);
  read_pages(fd, 128 * kMiB + 2 * kPage, kPage);
  read_pages(fd, 192 * kMiB, 1000);
  EXPECT_EQ(*missing_ranges(fd.get(), size),
            (std::vector<ByteRange>{{kPage, 128 * kMiB + kPage},
                                    {128 * kMiB + 3 * kPage, 64 * kMiB - 3 * kPage}}));
}

TEST_F(ResidencyOf, AFileOfManyWindowsIsCountedWhole) {
  // Past one mincore window of 1 GiB.
  const std::uint64_t size = 2 * kGiB + 5 * kPage + 7;
  const std::string path = dir.write("large", "");
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM), 0);
  read_pages(fd, kGiB - kPage, 2 * kPage);
  read_pages(fd, size - 7, 7);
  for (const ResidencyMethod method : methods()) {
    EXPECT_EQ(resident(fd, size, method), 2 * kPage + 7);
  }
}

TEST(Residency, OfTmpfsIsWhatWasWritten) {
  const UniqueFd fd(::memfd_create("andiron-test", MFD_CLOEXEC));
  ASSERT_TRUE(fd);
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(16 * kPage)), 0);
  const std::vector<char> page(kPage, 'x');
  ASSERT_EQ(::pwrite(fd.get(), page.data(), kPage, static_cast<off_t>(4 * kPage)),
            static_cast<ssize_t>(kPage));
  const Residency found = read_residency(fd.get(), 16 * kPage);
  ASSERT_TRUE(found.resident_bytes) << found.reason;
  EXPECT_EQ(*found.resident_bytes, kPage);
}

TEST(Residency, OfABadDescriptorIsUnknown) {
  const Residency found = read_residency(-1, 4096);
  EXPECT_FALSE(found.resident_bytes);
  EXPECT_NE(found.reason, "");
  ASSERT_FALSE(missing_ranges(-1, 4096));
  EXPECT_EQ(missing_ranges(-1, 4096).error().errc(), Errc::unavailable);
}

/// The exit status of `check` in a child without privileges of any kind.
template <class Check>
int as_nobody(Check check) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(100);
    ::_exit(check());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 101;
  return WEXITSTATUS(status);
}

TEST_F(ResidencyOf, AForeignFileIsUnknownAndNotAllResident) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  const std::uint64_t size = 16 * kPage;
  const UniqueFd writable = open_cold(size);
  const std::string path = "/proc/self/fd/" + std::to_string(writable.get());
  // Opened for reading before the change of user, as an agent would be given it.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd);
  ASSERT_EQ(::fchmod(fd.get(), 0644), 0);
  const auto foreign = [&](ResidencyMethod method) {
    return as_nobody([&] {
      const Residency found = read_residency(fd.get(), size, method);
      if (!found.resident_bytes) return found.reason.empty() ? 3 : 0;
      return *found.resident_bytes == 0 ? 1 : 2;
    });
  };
  EXPECT_EQ(foreign(ResidencyMethod::mincore), 0);
  // Kernels of 2023 and 2024 let everybody ask cachestat: then the truth (none) is fine too.
  EXPECT_LE(foreign(ResidencyMethod::automatic), 1);
  EXPECT_EQ(as_nobody([&] {
              const auto missing = missing_ranges(fd.get(), size);
              if (missing) return *missing == std::vector<ByteRange>{{0, size}} ? 0 : 1;
              return missing.error().errc() == Errc::unavailable ? 0 : 2;
            }),
            0);
  // Somebody who may write it is told.
  ASSERT_EQ(::fchmod(fd.get(), 0666), 0);
  EXPECT_EQ(foreign(ResidencyMethod::mincore), 1);
  EXPECT_EQ(foreign(ResidencyMethod::automatic), 1);
}

TEST_F(ResidencyOf, LockedBytesAreThoseThatAreThereAndLocked) {
  const std::uint64_t size = 16 * kPage;
  const UniqueFd fd = open_cold(size);
  const Result<MappedRegion> region = MappedRegion::map_file(fd.get(), size);
  ASSERT_TRUE(region);
  EXPECT_EQ(*locked_bytes(*region), 0U);
  if (::mlock2(region->data(), size, MLOCK_ONFAULT) != 0) {
    GTEST_SKIP() << "mlock of 16 pages: " << std::generic_category().message(errno);
  }
  EXPECT_EQ(*locked_bytes(*region), 0U);
  ASSERT_EQ(::madvise(region->data(), size, MADV_RANDOM), 0);  // no fault around
  const volatile std::byte* data = region->data();
  static_cast<void>(data[0]);
  static_cast<void>(data[5 * kPage]);
  EXPECT_EQ(*locked_bytes(*region), 2 * kPage);

  // Somebody else maps and touches the same pages: as much is locked as before.
  const Result<MappedRegion> other = MappedRegion::map_file(fd.get(), size);
  ASSERT_TRUE(other);
  ASSERT_EQ(::madvise(other->data(), size, MADV_RANDOM), 0);
  static_cast<void>(static_cast<const volatile std::byte*>(other->data())[0]);
  EXPECT_EQ(*locked_bytes(*region), 2 * kPage);
  EXPECT_EQ(*locked_bytes(*other), 0U);

  // A part of it unlocked: two areas, of which one counts. By its number, since the sanitizers'
  // runtimes make munlock() do nothing.
  ASSERT_EQ(::syscall(SYS_munlock, region->data(), 4 * kPage), 0);
  EXPECT_EQ(*locked_bytes(*region), kPage);
  EXPECT_EQ(*locked_bytes(MappedRegion{}), 0U);
}

}  // namespace
}  // namespace andiron::os
