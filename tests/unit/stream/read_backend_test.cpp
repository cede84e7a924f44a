// SPDX-License-Identifier: MIT
#include "agent/stream/read_backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.hpp"

namespace andiron::stream {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Reads from a string in memory, one completion a reap, newest first.
class MemoryBackend final : public ReadBackend {
 public:
  explicit MemoryBackend(std::string content, std::size_t depth = 4)
      : content_(std::move(content)), depth_(depth) {}
  std::size_t depth() const noexcept override { return depth_; }
  const char* name() const noexcept override { return "memory"; }

 protected:
  Result<void> do_submit(const ReadRequest& request) override {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the address's low bits.
    const auto address = reinterpret_cast<std::uintptr_t>(request.buffer.data());
    if (((request.offset | request.buffer.size() | address) & (request.alignment - 1)) != 0) {
      done_.push_back({request.id, -EINVAL});  // as the kernel would
      return {};
    }
    const std::size_t at = std::min<std::size_t>(request.offset, content_.size());
    const std::size_t count = std::min(request.buffer.size(), content_.size() - at);
    std::memcpy(request.buffer.data(), content_.data() + at, count);
    done_.push_back({request.id, static_cast<std::int64_t>(count)});
    return {};
  }
  Result<std::vector<RawCompletion>> do_reap(std::chrono::milliseconds) override {
    if (done_.empty()) return std::vector<RawCompletion>();
    const RawCompletion last = done_.back();
    done_.pop_back();
    return std::vector<RawCompletion>{last};
  }
  void do_cancel(std::uint64_t) noexcept override {}

 private:
  std::string content_;
  std::size_t depth_;
  std::deque<RawCompletion> done_;
};

constexpr std::uint32_t kBlock = 512;
constexpr std::size_t kSize = 8 * kBlock + 100;  // a file with a tail

class ReadBackendTest : public ::testing::Test {
 protected:
  static std::string make_content() {
    std::string content(kSize, '\0');
    for (std::size_t i = 0; i < kSize; ++i)
      content[i] = static_cast<char>(i * 31 + i / 251);
    return content;
  }
  ReadRequest request(std::uint64_t offset, std::size_t size, std::uint32_t alignment = 1) {
    return {1, 0, offset, std::span(buffer_).first(size), alignment};
  }
  ReadRequest everything(std::uint32_t alignment) { return request(0, buffer_.size(), alignment); }
  Errc refusal(const ReadRequest& request) {
    const Result<void> result = reads_.submit(request);
    EXPECT_FALSE(result);
    return result ? Errc::io_error : result.error().errc();
  }
  /// One read from start to end.
  Result<std::size_t> read(const ReadRequest& request) {
    TRY(reads_.submit(request));
    std::vector<ReadCompletion> completions = TRY(reads_.reap(1s));
    EXPECT_EQ(completions.size(), 1U);
    EXPECT_EQ(reads_.in_flight(), 0U);
    if (completions.size() != 1) return make_error(Errc::io_error, "no completion");
    EXPECT_EQ(completions[0].id, request.id);
    return completions[0].bytes;
  }
  bool buffer_is_content(std::uint64_t offset, std::size_t count) const {
    return std::memcmp(buffer_.data(), content_.data() + offset, count) == 0;
  }

  const std::string content_ = make_content();
  testing::FaultyBackend reads_{std::make_unique<MemoryBackend>(content_)};
  alignas(4096) std::array<std::byte, 10 * kBlock> buffer_{};
};

TEST_F(ReadBackendTest, GivesBytesOfTheMiddle) {
  EXPECT_EQ(read(request(77, 1000)).value(), 1000U);
  EXPECT_TRUE(buffer_is_content(77, 1000));
}

TEST_F(ReadBackendTest, RefusesWhatIsNotAligned) {
  EXPECT_EQ(refusal(request(1, kBlock, kBlock)), Errc::bad_request);
  EXPECT_EQ(refusal(request(0, kBlock + 1, kBlock)), Errc::bad_request);
  ReadRequest crooked = request(0, kBlock, kBlock);
  crooked.buffer = std::span(buffer_).subspan(8, kBlock);
  EXPECT_EQ(refusal(crooked), Errc::bad_request);
  EXPECT_EQ(reads_.submitted(), 0U);
  EXPECT_EQ(reads_.in_flight(), 0U);
}

TEST_F(ReadBackendTest, RefusesWhatMakesNoSense) {
  EXPECT_EQ(refusal(request(0, 0)), Errc::bad_request);
  EXPECT_EQ(refusal(request(0, kBlock, 0)), Errc::bad_request);
  EXPECT_EQ(refusal(request(0, kBlock, 3)), Errc::bad_request);
  EXPECT_EQ(refusal(request(0, kBlock, 1U << 30)), Errc::bad_request);
  EXPECT_EQ(refusal(request(std::numeric_limits<std::int64_t>::max(), 1)), Errc::bad_request);
  EXPECT_EQ(refusal(request(std::numeric_limits<std::uint64_t>::max(), 1)), Errc::bad_request);
  ReadRequest reserved = request(0, 1);
  reserved.id = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(refusal(reserved), Errc::bad_request);
  EXPECT_EQ(reads_.submitted(), 0U);
}

TEST_F(ReadBackendTest, RefusesMoreThanItsDepthAndAnIdThatIsInFlight) {
  for (std::uint64_t id = 0; id < reads_.depth() - 1; ++id) {
    ReadRequest one = request(0, 1);
    one.id = id;
    ASSERT_TRUE(reads_.submit(one));
  }
  EXPECT_EQ(refusal(request(0, 1)), Errc::bad_request) << "id 1 is in flight";
  ReadRequest last = request(0, 1);
  last.id = 100;
  ASSERT_TRUE(reads_.submit(last));
  last.id = 101;
  EXPECT_EQ(refusal(last), Errc::bad_request);
  EXPECT_EQ(reads_.in_flight(), reads_.depth());
  ASSERT_EQ(reads_.reap(1s)->size(), 1U);
  EXPECT_TRUE(reads_.submit(last));
}

TEST_F(ReadBackendTest, ContinuesShortReadsInsideTheFile) {
  for (const std::uint32_t alignment : {1U, kBlock}) {
    testing::FaultyBackend reads(std::make_unique<MemoryBackend>(content_));
    reads.short_read_at(1).short_read_at(2).short_read_at(3);
    buffer_.fill({});
    ASSERT_TRUE(reads.submit(request(kBlock, 6 * kBlock, alignment)));
    const auto completions = reads.reap(1s);
    ASSERT_EQ(completions->size(), 1U);
    EXPECT_EQ((*completions)[0].bytes.value(), 6 * kBlock);
    EXPECT_TRUE(buffer_is_content(kBlock, 6 * kBlock));
    EXPECT_EQ(reads.submitted(), 4U);
  }
}

TEST_F(ReadBackendTest, EndOfFileIsAShortResult) {
  EXPECT_EQ(read(everything(1)).value(), kSize);
  EXPECT_TRUE(buffer_is_content(0, kSize));
  EXPECT_EQ(read(request(kSize, 10)).value(), 0U);
  EXPECT_EQ(read(request(kSize + 1000, 10)).value(), 0U);
}

TEST_F(ReadBackendTest, ADirectReadKeepsItsTailAndStaysAligned) {
  // The continuation after the tail has to begin at a block again, or it is EINVAL.
  EXPECT_EQ(read(everything(kBlock)).value(), kSize);
  EXPECT_TRUE(buffer_is_content(0, kSize));
  EXPECT_EQ(reads_.submitted(), 2U);
}

TEST_F(ReadBackendTest, AShortReadBeforeTheTailDoesNotHideIt) {
  reads_.short_read_at(1).short_read_at(2);
  EXPECT_EQ(read(everything(kBlock)).value(), kSize);
  EXPECT_TRUE(buffer_is_content(0, kSize));
}

TEST_F(ReadBackendTest, AZeroInsideTheFileIsItsEnd) {
  reads_.short_read_at(1).eof_at(2);
  EXPECT_EQ(read(request(0, 4 * kBlock, kBlock)).value(), 2 * kBlock);
}

TEST_F(ReadBackendTest, TriesAgainAfterSignalsAndBusyKernels) {
  reads_.again_at(1).fail_at(2, EINTR).short_read_at(3).again_at(4);
  EXPECT_EQ(read(request(0, 4 * kBlock)).value(), 4 * kBlock);
  EXPECT_TRUE(buffer_is_content(0, 4 * kBlock));
  EXPECT_EQ(reads_.submitted(), 5U);
}

TEST_F(ReadBackendTest, DoesNotTryForEver) {
  for (unsigned n = 1; n < 1000; ++n)
    reads_.again_at(n);
  const Result<std::size_t> result = read(request(0, kBlock));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code.value(), EAGAIN);
  EXPECT_LT(reads_.submitted(), 100U);
}

TEST_F(ReadBackendTest, AnErrorIsOfItsReadAlone) {
  reads_.fail_at(1, EINVAL);
  const Result<std::size_t> result = read(request(3 * kBlock, kBlock, kBlock));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code.value(), EINVAL);
  EXPECT_THAT(result.error().message(), HasSubstr("read 512 bytes at 1536"));
  EXPECT_EQ(read(request(0, kBlock)).value(), kBlock);
}

TEST_F(ReadBackendTest, ARefusedSubmissionIsNotInFlight) {
  reads_.refuse_at(1, EPERM);
  EXPECT_EQ(refusal(request(0, kBlock)), Errc::permission_denied);
  EXPECT_EQ(reads_.in_flight(), 0U);
  reads_.short_read_at(2).refuse_at(3, EPERM);
  const Result<std::size_t> result = read(request(0, kBlock));
  ASSERT_FALSE(result) << "a refused continuation ends the read";
  EXPECT_EQ(result.error().errc(), Errc::permission_denied);
}

TEST_F(ReadBackendTest, ReapWithNothingInFlightGivesNothing) {
  EXPECT_TRUE(reads_.reap(1h)->empty());
  EXPECT_TRUE(reads_.cancel_all(1h));
}

TEST_F(ReadBackendTest, AStalledReadTimesOutAndComesAfterItsRelease) {
  reads_.stall_at(1);
  ASSERT_TRUE(reads_.submit(request(0, kBlock)));
  EXPECT_TRUE(reads_.reap(0ms)->empty());
  EXPECT_EQ(reads_.in_flight(), 1U);
  const Result<void> cancelled = reads_.cancel_all(0ms);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().errc(), Errc::timeout);
  EXPECT_EQ(reads_.in_flight(), 1U);
  reads_.release();
  ASSERT_EQ(reads_.reap(1s)->size(), 1U);
  EXPECT_TRUE(buffer_is_content(0, kBlock));
}

TEST_F(ReadBackendTest, AfterACancelNothingIsLeftToReap) {
  ReadRequest two = request(kBlock, kBlock);
  two.id = 2;
  ASSERT_TRUE(reads_.submit(request(0, kBlock)));
  ASSERT_TRUE(reads_.submit(two));
  EXPECT_TRUE(reads_.cancel_all(1s));
  EXPECT_EQ(reads_.in_flight(), 0U);
  EXPECT_TRUE(reads_.reap(0ms)->empty());
}

}  // namespace
}  // namespace andiron::stream
