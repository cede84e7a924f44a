// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>

#include <cstdint>
#include <string>

#include "tests/component/tier/fill_fixture.hpp"

namespace andiron::testing {
namespace {

using tier::FillMethod;
using tier::FillOutcome;
using tier::FillRequest;

std::string first_note(const FillOutcome& outcome) {
  return outcome.notes.empty() ? "" : outcome.notes.front();
}

/// Whether any area of this process maps the file.
bool is_mapped(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path.string()) != std::string::npos) return true;
  }
  return false;
}

bool is_open(const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone) == path) return true;
  }
  return false;
}

class FillMethodTest : public FillTest, public ::testing::WithParamInterface<FillMethod> {};

TEST_P(FillMethodTest, MakesEverySizeResident) {
  const std::uint64_t page = 4096;
  const std::uint64_t window = 16 * kMiB;
  std::vector<Path> paths;
  std::uint64_t total = 0;
  for (const std::uint64_t size :
       {std::uint64_t{1}, page - 1, page, page + 1, 128 * kKiB - 1, 128 * kKiB + 1, 2 * kMiB - 1,
        2 * kMiB, 2 * kMiB + 1, 5 * kMiB + 3, window - 1, window, window + 1, window + page,
        2 * window + 12345}) {
    paths.push_back(cold_file("f" + std::to_string(size), size));
    ASSERT_EQ(0U, resident(paths.back()));
    total += size;
  }
  FillRequest request = request_for(paths, Hold::cached);
  request.method = GetParam();
  const FillOutcome outcome = fill(std::move(request));
  EXPECT_FALSE(outcome.error) << outcome.error->message();
  EXPECT_TRUE(outcome.notes.empty()) << first_note(outcome);
  EXPECT_EQ(7U, outcome.job);
  ASSERT_EQ(paths.size(), outcome.held.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::uint64_t size = std::filesystem::file_size(paths[i]);
    EXPECT_EQ(size, resident(paths[i]));
    EXPECT_EQ(size, outcome.held[i].resident_bytes);
    EXPECT_EQ(paths[i], outcome.held[i].path);
    EXPECT_FALSE(is_open(paths[i]));
    EXPECT_FALSE(is_mapped(paths[i]));
  }
  EXPECT_EQ(total, outcome.bytes_read);
  EXPECT_EQ(total, control_->total());
  EXPECT_EQ(total, control_->done());
}

INSTANTIATE_TEST_SUITE_P(Methods, FillMethodTest,
                         ::testing::Values(FillMethod::automatic, FillMethod::populate,
                                           FillMethod::readahead_populate,
                                           FillMethod::buffered_reads));

TEST_F(FillTest, AnEmptyFileIsHeldTrivially) {
  const Path path = dir_.write("empty", "");
  for (const Hold hold : {Hold::cached, Hold::mapped, Hold::locked}) {
    const FillOutcome outcome = fill(request_for({path}, hold));
    EXPECT_FALSE(outcome.error);
    ASSERT_EQ(1U, outcome.held.size());
    EXPECT_EQ(hold, outcome.held[0].hold);
    EXPECT_FALSE(outcome.held[0].mapping);
  }
}

TEST_F(FillTest, MappedSurvivesDontneed) {
  const Path path = cold_file("model", 40 * kMiB + 17);
  // Pages that were there before have to be mapped as well.
  make_warm(path);
  make_cold(path, 8 * kMiB, 4 * kMiB);
  {
    const FillOutcome outcome = fill(request_for({path}, Hold::mapped));
    ASSERT_EQ(1U, outcome.held.size());
    EXPECT_TRUE(outcome.held[0].fd);
    EXPECT_EQ(40 * kMiB + 17, outcome.held[0].mapping.size());
    EXPECT_EQ(4 * kMiB, outcome.bytes_read);
    make_cold(path, 0, 0);
    EXPECT_EQ(40 * kMiB + 17, resident(path));
  }
  make_cold(path, 0, 0);
  EXPECT_EQ(0U, resident(path));
}

/// What this process had read from storage so far: read_bytes of /proc/self/io.
std::uint64_t bytes_from_storage() {
  std::ifstream io("/proc/self/io");
  std::string name;
  for (std::uint64_t value = 0; io >> name >> value;) {
    if (name == "read_bytes:") return value;
  }
  return 0;
}

/// Nine tenths of a file are resident: holes of `hole` bytes.
class HolesTest : public FillTest, public ::testing::WithParamInterface<std::uint64_t> {};

TEST_P(HolesTest, OnlyWhatIsMissingIsRead) {
  const std::uint64_t hole = GetParam();
  const std::uint64_t size = 80 * kMiB;
  for (const Hold hold : {Hold::cached, Hold::mapped}) {
    const Path path = cold_file("model", size);
    for (std::uint64_t at = 0; at < size; at += 10 * hole)
      make_resident(path, at, 9 * hole);
    ASSERT_EQ(size / 10 * 9, resident(path));
    const std::uint64_t before = bytes_from_storage();
    const FillOutcome outcome = fill(request_for({path}, hold));
    const std::uint64_t read = bytes_from_storage() - before;
    EXPECT_FALSE(outcome.error);
    EXPECT_EQ(size, resident(path));
    EXPECT_EQ(size / 10, outcome.bytes_read);
    EXPECT_GE(read, size / 10);
    EXPECT_LE(read, size / 10 + size / 100);  // with the file system's own blocks
  }
}

INSTANTIATE_TEST_SUITE_P(Holes, HolesTest, ::testing::Values(8 * kMiB, kMiB, 16 * kKiB));

/// Devices of the kinds that take another way through the fill.
TEST_F(FillTest, EveryKindOfDeviceIsFilled) {
  const Path path = cold_file("model", 70 * kMiB + 5);
  for (const bool rotational : {false, true}) {
    for (const std::uint64_t read_ahead : {std::uint64_t{0}, 128 * kKiB, 8 * kMiB}) {
      os::DeviceTraits device = device_of(path);
      device.name = "sda";
      device.rotational = rotational;
      device.read_ahead = read_ahead;
      make_cold(path, 0, 0);
      start(request_for({path}, Hold::cached), device);
      const FillOutcome outcome = FillTest::outcome();
      EXPECT_FALSE(outcome.error);
      EXPECT_EQ(70 * kMiB + 5, resident(path));
      EXPECT_EQ(70 * kMiB + 5, outcome.bytes_read);
    }
  }
}

TEST_F(FillTest, AWarmFileIsNotReadAgain) {
  const Path path = dir_.write_random("model", 4 * kMiB);
  make_warm(path);
  const std::uint64_t before = bytes_from_storage();
  const FillOutcome outcome = fill(request_for({path}, Hold::mapped));
  EXPECT_EQ(0U, outcome.bytes_read);
  EXPECT_LT(bytes_from_storage() - before, kMiB);
  EXPECT_EQ(4 * kMiB, control_->done());
}

TEST_F(FillTest, TmpfsIsResidentAlready) {
  const Path path = "/dev/shm/andiron-tier-test-" + std::to_string(::getpid());
  std::ofstream(path) << std::string(3 * kMiB + 1, 'x');
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "/dev/shm cannot be written to";
  for (const Hold hold : {Hold::cached, Hold::mapped}) {
    const FillOutcome outcome = fill(request_for({path}, hold));
    EXPECT_FALSE(outcome.error);
    ASSERT_EQ(1U, outcome.held.size());
    EXPECT_EQ(3 * kMiB + 1, outcome.held[0].resident_bytes);
    EXPECT_EQ(0U, outcome.bytes_read);
  }
  std::filesystem::remove(path);
}

TEST_F(FillTest, GivesPagesBackButNotThoseInUse) {
  const Path path = cold_file("model", 3 * kMiB);
  const tier::FillFile file = file_of(path);
  {
    const FillOutcome outcome = fill(request_for({path}, Hold::mapped));
    const auto kept = tier::give_pages_back(file.path, file.identity);
    ASSERT_TRUE(kept);
    EXPECT_EQ(3 * kMiB, *kept);
  }
  const auto left = tier::give_pages_back(file.path, file.identity);
  ASSERT_TRUE(left);
  EXPECT_EQ(0U, *left);
  EXPECT_EQ(0U, resident(path));
}

TEST_F(FillTest, GivesBackOnlyTheFilesOwnPages) {
  const Path path = dir_.write("model", "old");
  const tier::FillFile file = file_of(path);
  // The new one before the old one goes, so that it has another inode.
  const Path next = dir_.write_random("next", kMiB);
  make_warm(next);
  std::filesystem::rename(next, path);
  const auto refused = tier::give_pages_back(file.path, file.identity);
  ASSERT_FALSE(refused);
  EXPECT_EQ(Errc::stale, refused.error().errc());
  EXPECT_EQ(kMiB, resident(path));
}

}  // namespace
}  // namespace andiron::testing
