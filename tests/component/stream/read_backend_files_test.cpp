// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/base/units.hpp"
#include "agent/stream/read_backend.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::stream {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPage = 4096;
constexpr std::size_t kDepth = 16;

/// The same promises, kept by both backends on real files.
class ReadBackendFilesTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "pread") {
      reads_ = make_pread_backend();
      return;
    }
    Result<std::unique_ptr<ReadBackend>> ring = make_uring_backend(kDepth);
    if (!ring) GTEST_SKIP() << ring.error().message();
    reads_ = std::move(*ring);
  }
  /// A file of the size, and what is in it.
  std::string make_file(std::size_t size) {
    path_ = folder_.write_random("weights", size);
    return testing::bytes_of(path_);
  }
  UniqueFd open_file(int flags = 0) const {
    UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | flags));
    EXPECT_TRUE(fd) << std::strerror(errno);
    return fd;
  }
  std::span<std::byte> buffer(std::size_t size) const {
    return std::span(memory_.data(), memory_.size()).first(size);
  }
  Result<std::size_t> read(const ReadRequest& request) {
    TRY(reads_->submit(request));
    std::vector<ReadCompletion> completions = TRY(reads_->reap(10s));
    if (completions.size() != 1) return make_error(Errc::timeout, "one completion");
    return completions[0].bytes;
  }
  /// Reads, and holds it against the file: all of it, up to the file's end, and nothing after.
  void expect_read(int fd, const std::string& content, std::uint64_t offset, std::size_t size,
                   std::uint32_t alignment) {
    SCOPED_TRACE(std::to_string(size) + " at " + std::to_string(offset) + " of " +
                 std::to_string(content.size()));
    const std::size_t there =
        offset < content.size() ? std::min<std::size_t>(size, content.size() - offset) : 0;
    const std::span<std::byte> into = buffer(size);
    std::fill(into.begin(), into.end(), std::byte{0xEE});
    const Result<std::size_t> bytes = read({7, fd, offset, into, alignment});
    ASSERT_TRUE(bytes) << bytes.error().message();
    ASSERT_EQ(*bytes, there);
    EXPECT_EQ(std::memcmp(into.data(), content.data() + std::min(offset, content.size()), there),
              0);
  }

  testing::TempDir folder_;
  std::filesystem::path path_;
  MappedRegion memory_ = *MappedRegion::map_anonymous(4 * kMiB);  // page aligned
  std::unique_ptr<ReadBackend> reads_;
};

INSTANTIATE_TEST_SUITE_P(Backends, ReadBackendFilesTest, ::testing::Values("io_uring", "pread"),
                         [](const auto& backend) {
                           return std::string(backend.param) == "pread" ? "pread" : "uring";
                         });

TEST_P(ReadBackendFilesTest, SaysItsName) { EXPECT_STREQ(reads_->name(), GetParam()); }

TEST_P(ReadBackendFilesTest, BufferedReadsOfEveryShapeAroundPages) {
  for (const std::size_t file : {1U, 4095U, 4096U, 4097U, 12287U, 12288U, 12289U}) {
    const std::string content = make_file(file);
    const UniqueFd fd = open_file();
    for (const std::uint64_t offset :
         {0U, 1U, 4095U, 4096U, 4097U, 8192U, 12288U, 12289U, 99999U}) {
      for (const std::size_t size : {1U, 4095U, 4096U, 4097U, 8191U, 8192U, 8193U, 65536U}) {
        expect_read(fd.get(), content, offset, size, 1);
      }
    }
  }
}

TEST_P(ReadBackendFilesTest, DirectReadsGiveTheTailOfAFileOfAnySize) {
  for (const std::size_t file : {1U, 4095U, 4096U, 4097U, 12288U, 12289U, 13291U, 16383U}) {
    const std::string content = make_file(file);
    const UniqueFd fd = open_file(O_DIRECT);
    for (std::uint64_t offset = 0; offset <= 5 * kPage; offset += kPage) {
      for (const std::size_t pages : {1U, 2U, 3U, 4U, 16U}) {
        expect_read(fd.get(), content, offset, pages * kPage, kPage);
      }
    }
  }
}

TEST_P(ReadBackendFilesTest, ManyInFlightEachGetTheirOwnBytes) {
  constexpr std::size_t kChunk = 48 * kKiB;
  const std::string content = make_file(8 * kMiB + 777);
  const UniqueFd fd = open_file();
  std::vector<std::uint64_t> todo;
  for (std::uint64_t at = 0; at < content.size(); at += kChunk)
    todo.push_back(at);
  std::shuffle(todo.begin(), todo.end(), std::mt19937_64(1));
  std::vector<std::uint64_t> slots(reads_->depth());  // where each reads now
  std::vector<std::size_t> free(slots.size());
  for (std::size_t i = 0; i < free.size(); ++i)
    free[i] = i;
  std::size_t wrong = 0;
  std::size_t total = 0;
  while (!todo.empty() || reads_->in_flight() > 0) {
    while (!todo.empty() && !free.empty()) {
      const std::size_t slot = free.back();
      free.pop_back();
      slots[slot] = todo.back();
      todo.pop_back();
      ASSERT_TRUE(reads_->submit(
          {slot, fd.get(), slots[slot], buffer(memory_.size()).subspan(slot * kChunk, kChunk)}));
    }
    const auto completions = reads_->reap(10s);
    ASSERT_TRUE(completions);
    ASSERT_FALSE(completions->empty());
    for (const ReadCompletion& completion : *completions) {
      ASSERT_TRUE(completion.bytes);
      total += *completion.bytes;
      wrong += std::memcmp(memory_.data() + completion.id * kChunk,
                           content.data() + slots[completion.id], *completion.bytes) != 0;
      free.push_back(completion.id);
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(total, content.size());
}

TEST_P(ReadBackendFilesTest, MisalignedDirectReadsDoNotReachTheKernel) {
  make_file(4 * kPage);
  const UniqueFd fd = open_file(O_DIRECT);
  for (const ReadRequest& request :
       {ReadRequest{1, fd.get(), 512, buffer(kPage), kPage},
        ReadRequest{1, fd.get(), 0, buffer(kPage - 512), kPage},
        ReadRequest{1, fd.get(), 0, buffer(2 * kPage).subspan(8, kPage), kPage}}) {
    const Result<void> submitted = reads_->submit(request);
    ASSERT_FALSE(submitted);
    EXPECT_EQ(submitted.error().errc(), Errc::bad_request);
  }
  EXPECT_EQ(reads_->in_flight(), 0U);
}

TEST_P(ReadBackendFilesTest, AKernelThatWantsMoreAlignmentIsHeard) {
  make_file(4 * kPage);
  const UniqueFd fd = open_file(O_DIRECT);
  const Result<std::size_t> bytes = read({1, fd.get(), 3, buffer(kPage), 1});
  if (bytes) GTEST_SKIP() << "this file system reads misaligned places through its cache";
  EXPECT_EQ(bytes.error().code.value(), EINVAL);
  EXPECT_EQ(reads_->in_flight(), 0U);
}

TEST_P(ReadBackendFilesTest, AnErrorOfTheFileIsItsResult) {
  make_file(kPage);
  EXPECT_EQ(read({1, -1, 0, buffer(16)}).error().code.value(), EBADF);
  const UniqueFd directory(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(read({1, directory.get(), 0, buffer(16)}).error().code.value(), EISDIR);
  EXPECT_EQ(read({1, open_file().get(), 0, buffer(16)}).value(), 16U) << "and of nothing else";
}

TEST_P(ReadBackendFilesTest, AFileCutShorterEndsWhereItEndsNow) {
  make_file(4 * kPage);
  const UniqueFd fd = open_file();
  ASSERT_EQ(::truncate(path_.c_str(), kPage + 5), 0);
  EXPECT_EQ(read({1, fd.get(), 0, buffer(4 * kPage)}).value(), kPage + 5U);
}

}  // namespace
}  // namespace andiron::stream
