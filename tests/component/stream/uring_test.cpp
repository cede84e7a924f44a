// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "agent/base/unique_fd.hpp"
#include "agent/stream/read_backend.hpp"

namespace andiron::stream {
namespace {

using namespace std::chrono_literals;
using State = os::Capability::State;

/// An empty pipe: a read of it stays in the kernel until it is cancelled or written to. (pread
/// refuses pipes; a ring reads them.)
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  void fill() const { EXPECT_EQ(::write(write_end.get(), "01234567", 8), 8); }
  UniqueFd read_end;
  UniqueFd write_end;
};

class UringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<ReadBackend>> ring = make_uring_backend(4);
    if (!ring) GTEST_SKIP() << ring.error().message();
    reads_ = std::move(*ring);
  }
  void submit(std::uint64_t id) {
    ASSERT_TRUE(reads_->submit({id, pipe_.read_end.get(), 0, std::span(buffers_[id])}));
  }
  bool untouched() const { return buffers_ == decltype(buffers_){}; }

  Pipe pipe_;
  std::array<std::array<std::byte, 8>, 4> buffers_{};
  std::unique_ptr<ReadBackend> reads_;
};

TEST_F(UringTest, AReadThatDoesNotComeTimesOutAndComesLater) {
  submit(0);
  EXPECT_TRUE(reads_->reap(0ms)->empty());
  EXPECT_TRUE(reads_->reap(5ms)->empty());
  EXPECT_EQ(reads_->in_flight(), 1U);
  pipe_.fill();
  const auto completions = reads_->reap(10s);
  ASSERT_EQ(completions->size(), 1U);
  EXPECT_EQ((*completions)[0].bytes.value(), 8U);
}

TEST_F(UringTest, ACancelTakesAllBackFromTheKernel) {
  for (std::uint64_t id = 0; id < 4; ++id)
    submit(id);
  const Result<void> cancelled = reads_->cancel_all(10s);
  ASSERT_TRUE(cancelled) << cancelled.error().message();
  EXPECT_EQ(reads_->in_flight(), 0U);
  pipe_.fill();
  EXPECT_TRUE(reads_->reap(0ms)->empty());
  EXPECT_TRUE(untouched());
  submit(1);  // the ring works on
  const auto completions = reads_->reap(10s);
  ASSERT_EQ(completions->size(), 1U);
  EXPECT_EQ((*completions)[0].id, 1U);
}

TEST_F(UringTest, ItsEndWithReadsInFlightTakesThemBack) {
  submit(0);
  submit(1);
  reads_.reset();
  pipe_.fill();
  EXPECT_TRUE(untouched());
  std::array<char, 8> left{};
  EXPECT_EQ(::read(pipe_.read_end.get(), left.data(), left.size()), 8) << "nobody took the bytes";
}

TEST_F(UringTest, ADepthOutOfBoundsIsRefused) {
  EXPECT_EQ(make_uring_backend(0).error().errc(), Errc::bad_request);
  EXPECT_EQ(make_uring_backend(100000).error().errc(), Errc::bad_request);
}

TEST_F(UringTest, TheProbeSaysOn) {
  const os::Capability found = probe_uring();
  EXPECT_EQ(found.name, "io_uring");
  EXPECT_EQ(found.state, State::on);
  EXPECT_FALSE(found.reason.empty());
  EXPECT_TRUE(found.remedy.empty());
  EXPECT_STREQ(make_read_backend(4)->name(), "io_uring");
}

/// From here on the calling process gets EPERM for a system call, as under Docker's profile.
bool refuse_by_seccomp(unsigned call) {
  std::array<sock_filter, 4> filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Ends the child with 0 when everything is as it should be without io_uring.
[[noreturn]] void check_without(unsigned call) {
  if (!refuse_by_seccomp(call)) std::_Exit(77);
  const os::Capability found = probe_uring();
  const Result<std::unique_ptr<ReadBackend>> ring = make_uring_backend(4);
  const std::unique_ptr<ReadBackend> reads = make_read_backend(4);
  std::fprintf(stderr, "%s; %s\n", found.reason.c_str(), found.remedy.c_str());
  const bool right = found.state == State::off && !ring &&
                     ring.error().errc() == Errc::unavailable &&
                     std::string(reads->name()) == "pread";
  std::_Exit(right ? 0 : 1);
}

class UringRefused : public ::testing::Test {
 protected:
  // The other tests' rings leave kernel threads behind for a moment: not a plain fork.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(UringRefused, ASetUpThatIsRefusedFallsBackWithReasonAndRemedy) {
  EXPECT_EXIT(check_without(SYS_io_uring_setup), ::testing::ExitedWithCode(0),
              "io_uring_setup: Operation not permitted, falling back to pread; "
              ".*(seccomp|io_uring_disabled)");
}

TEST_F(UringRefused, ARingThatCannotBeEnteredFallsBackToo) {
  if (probe_uring().state != State::on) GTEST_SKIP() << probe_uring().reason;
  EXPECT_EXIT(check_without(SYS_io_uring_enter), ::testing::ExitedWithCode(0),
              "Operation not permitted, falling back to pread; .*seccomp");
}

}  // namespace
}  // namespace andiron::stream
