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

}  // namespace
}  // namespace andiron::testing
