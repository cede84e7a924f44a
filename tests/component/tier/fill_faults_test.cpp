// SPDX-License-Identifier: MIT
//
// What may go wrong during a fill: reads that fail, kernels that lack a call or do not do what they
// say, files that change under way.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <thread>

#include "tests/component/tier/fill_fixture.hpp"
#include "tests/support/faulty_backend.hpp"

namespace andiron::testing {
namespace {

using tier::FillMethod;
using tier::FillOutcome;
using tier::FillRequest;

class FaultTest : public FillTest {
 protected:
  FaultyBackend reads_{stream::make_read_backend(8)};

  FillRequest reading(const std::vector<Path>& paths) const {
    FillRequest request = request_for(paths, Hold::cached);
    request.method = FillMethod::buffered_reads;
    return request;
  }
};

TEST_F(FaultTest, ShortReadsAndEagainDoNotMatter) {
  const Path path = cold_file("model", 9 * kMiB + 77);
  reads_.short_read_at(1).short_read_at(3).again_at(4).short_read_at(10);
  const FillOutcome outcome = fill_with(reading({path}), reads_);
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(9 * kMiB + 77, resident(path));
}

class ReadErrorTest : public FaultTest, public ::testing::WithParamInterface<int> {};

TEST_P(ReadErrorTest, NamesFileAndOffsetAndGoesOnWithTheNext) {
  const Path bad = cold_file("bad", 9 * kMiB);
  const Path good = cold_file("good", 9 * kMiB);
  reads_.fail_at(3, GetParam());
  const FillOutcome outcome = fill_with(reading({bad, good}), reads_);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::io_error, outcome.error->errc());
  const std::string message = outcome.error->message();
  EXPECT_NE(std::string::npos, message.find(bad.string())) << message;
  EXPECT_NE(std::string::npos, message.find("offset 2097152")) << message;
  ASSERT_EQ(1U, outcome.held.size());
  EXPECT_EQ(good, outcome.held[0].path);
  EXPECT_EQ(9 * kMiB, resident(good));
  EXPECT_EQ(0U, reads_.in_flight());
}

INSTANTIATE_TEST_SUITE_P(Errors, ReadErrorTest, ::testing::Values(EIO, EINVAL));

TEST_F(FaultTest, ARefusedSubmissionEndsTheFileOnly) {
  const Path bad = cold_file("bad", 9 * kMiB);
  const Path good = cold_file("good", 9 * kMiB);
  reads_.refuse_at(2, ENXIO);
  const FillOutcome outcome = fill_with(reading({bad, good}), reads_);
  ASSERT_TRUE(outcome.error);
  ASSERT_EQ(1U, outcome.held.size());
  EXPECT_EQ(good, outcome.held[0].path);
}

TEST_F(FaultTest, AnEarlyEndOfFileIsStale) {
  const Path path = cold_file("model", 9 * kMiB);
  reads_.eof_at(5);
  const FillOutcome outcome = fill_with(reading({path}), reads_);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::stale, outcome.error->errc());
  EXPECT_TRUE(outcome.held.empty());
}

/// Makes the kernel answer MADV_POPULATE_READ with `answer` on this thread and those it starts:
/// for ever, so on a thread of the test's own.
bool answer_populate_with(std::uint32_t answer) {
#ifdef __x86_64__
  constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
  constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
  std::array<sock_filter, 8> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 22 /* MADV_POPULATE_READ */, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class PopulateTest : public FillTest {
 protected:
  /// Skips the test where seccomp is not to be had.
  void fill_answered(FillRequest request, std::uint32_t answer) {
    bool filtered = false;
    std::thread thread([&] {
      filtered = answer_populate_with(answer);
      if (!filtered) return;
      const auto reads = stream::make_pread_backend();
      outcome_ = fill_with(std::move(request), *reads);
    });
    thread.join();
    if (!filtered) GTEST_SKIP() << "seccomp filters are not allowed here";
  }
  FillOutcome outcome_;
};

TEST_F(PopulateTest, WithoutItFilesAreReadAndNotMapped) {
  const Path path = cold_file("model", 40 * kMiB + 9);
  fill_answered(request_for({path}, Hold::mapped), EINVAL);
  if (IsSkipped()) return;
  EXPECT_FALSE(outcome_.error);
  EXPECT_EQ(40 * kMiB + 9, resident(path));
  EXPECT_EQ(40 * kMiB + 9, outcome_.bytes_read);
  ASSERT_EQ(1U, outcome_.held.size());
  EXPECT_EQ(Hold::cached, outcome_.held[0].hold);
  EXPECT_FALSE(outcome_.held[0].mapping);
  ASSERT_EQ(2U, outcome_.notes.size());
  EXPECT_NE(std::string::npos, outcome_.notes[0].find("falling back to buffered reads"));
  EXPECT_NE(std::string::npos, outcome_.notes[1].find("not held"));
}

TEST_F(PopulateTest, AMethodThatOnlySaysItWorkedIsNoticed) {
  const Path path = cold_file("model", 40 * kMiB + 9);
  fill_answered(request_for({path}, Hold::cached), 0);
  if (IsSkipped()) return;
  EXPECT_FALSE(outcome_.error);
  EXPECT_EQ(40 * kMiB + 9, resident(path));
  EXPECT_EQ(40 * kMiB + 9, outcome_.bytes_read);
}

TEST_F(PopulateTest, AFaultThatAReadDoesNotMeetIsMended) {
  const Path path = cold_file("model", 40 * kMiB + 9);
  fill_answered(request_for({path}, Hold::cached), EFAULT);
  if (IsSkipped()) return;
  EXPECT_FALSE(outcome_.error);
  EXPECT_EQ(40 * kMiB + 9, resident(path));
  EXPECT_EQ(40 * kMiB + 9, control_->done());
}

TEST_F(PopulateTest, PagesThatCannotBeMappedAreNotHeld) {
  const Path path = cold_file("model", 2 * kMiB);
  fill_answered(request_for({path}, Hold::mapped), EFAULT);
  if (IsSkipped()) return;
  ASSERT_TRUE(outcome_.error);
  EXPECT_EQ(Errc::io_error, outcome_.error->errc());
  EXPECT_TRUE(outcome_.held.empty());
}

/// The fill is made to wait after it found the file; then something happens to the file.
class ChangeTest : public FillTest, public ::testing::WithParamInterface<Hold> {
 protected:
  template <class Change>
  FillOutcome fill_across(const Path& path, Change change) {
    make_resident(path, 0, 4096);
    control_->set_paused(true);
    start(request_for({path}, GetParam()));
    wait_until_located();
    change();
    control_->set_paused(false);
    return outcome();
  }
  static void expect_stale(const FillOutcome& outcome) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(Errc::stale, outcome.error->errc()) << outcome.error->message();
    EXPECT_TRUE(outcome.held.empty());
  }
};

TEST_P(ChangeTest, TruncatedUnderWay) {
  const Path path = cold_file("model", 40 * kMiB);
  expect_stale(fill_across(path, [&] { std::filesystem::resize_file(path, 20 * kMiB + 1); }));
}

TEST_P(ChangeTest, EmptiedUnderWay) {
  const Path path = cold_file("model", 40 * kMiB);
  expect_stale(fill_across(path, [&] { std::filesystem::resize_file(path, 0); }));
}

TEST_P(ChangeTest, GrownUnderWay) {
  const Path path = cold_file("model", 4 * kMiB);
  expect_stale(fill_across(path, [&] { std::filesystem::resize_file(path, 5 * kMiB); }));
}

TEST_P(ChangeTest, RewrittenUnderWay) {
  const Path path = cold_file("model", 4 * kMiB);
  expect_stale(fill_across(path, [&] {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(5, ::pwrite(fd.get(), "fresh", 5, 4096));
  }));
}

TEST_P(ChangeTest, ReplacedUnderWay) {
  const Path path = cold_file("model", 4 * kMiB);
  const Path next = dir_.write_random("next", 4 * kMiB);
  expect_stale(fill_across(path, [&] { std::filesystem::rename(next, path); }));
}

INSTANTIATE_TEST_SUITE_P(Holds, ChangeTest, ::testing::Values(Hold::cached, Hold::mapped));

TEST_F(FillTest, ReplacedBeforeTheFillIsStaleAndTheOthersGoOn) {
  const Path path = cold_file("model", kMiB);
  const Path other = cold_file("other", kMiB);
  const FillRequest request = request_for({path, other}, Hold::mapped);
  std::filesystem::rename(dir_.write_random("next", kMiB), path);
  const FillOutcome outcome = fill(request);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::stale, outcome.error->errc());
  ASSERT_EQ(1U, outcome.held.size());
  EXPECT_EQ(other, outcome.held[0].path);
}

TEST_F(FillTest, AMissingFileAndAFifoAreNamed) {
  const Path path = cold_file("model", kMiB);
  FillRequest request = request_for({path, path, path}, Hold::cached);
  request.files[0].path = (dir_ / "nowhere").string();
  request.files[1].path = (dir_ / "fifo").string();
  ASSERT_EQ(0, ::mkfifo(request.files[1].path.c_str(), 0600));
  const FillOutcome outcome = fill(request);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::source_not_found, outcome.error->errc());  // the first of the two
  EXPECT_NE(std::string::npos, outcome.error->message().find("nowhere"));
  EXPECT_EQ(1U, outcome.held.size());
}

}  // namespace
}  // namespace andiron::testing
