// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/component/tier/pinned_fixture.hpp"
#include "tests/support/faulty_backend.hpp"

namespace andiron::testing {
namespace {

using tier::PinnedOutcome;
using tier::PinnedRequest;

TEST_F(PinnedTest, EveryByteAroundEveryBoundary) {
  for (const std::uint64_t size :
       {std::uint64_t{1}, std::uint64_t{511}, std::uint64_t{512}, std::uint64_t{4095},
        std::uint64_t{4096}, std::uint64_t{4097}, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1,
        64 * kMiB - 1, 64 * kMiB + 513, 70 * kMiB + 3}) {
    SCOPED_TRACE(size);
    const Path path = dir_.write_random("source", size);
    make_cold(path);
    const PinnedOutcome outcome = fill(request_for({path}));
    ASSERT_FALSE(outcome.error) << outcome.error->message();
    ASSERT_EQ(1U, outcome.held.size());
    EXPECT_EQ(size, outcome.bytes_read);
    EXPECT_FALSE(outcome.held[0].adopted);
    EXPECT_EQ(0U, resident(path)) << "the source went through the page cache";
    expect_copy(outcome.held[0], path);
    // What follows the end in its page is nobody's to see.
    const tier::PinnedFile& held = outcome.held[0];
    for (std::size_t at = size; at < held.mapping.size(); ++at)
      ASSERT_EQ(std::byte{0}, held.mapping.data()[at]);
    EXPECT_EQ(control_->total(), control_->done());
  }
}

TEST_F(PinnedTest, AnEmptyFileHasAnEmptyCopy) {
  const Path path = dir_.write("source", "");
  const PinnedOutcome outcome = fill(request_for({path}));
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  expect_copy(outcome.held.at(0), path);
}

TEST_F(PinnedTest, TakesFromThePageCacheWhatIsThere) {
  const std::uint64_t size = 24 * kMiB + 77;
  const Path path = dir_.write_random("source", size);
  make_cold(path);
  {  // Some of it resident, in odd places; and dirty.
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    std::string text(3 * kMiB + 5, 'x');
    ASSERT_EQ(static_cast<ssize_t>(text.size()),
              ::pwrite(fd.get(), text.data(), text.size(), 5 * kMiB + 4321));
    ASSERT_EQ(5, ::pwrite(fd.get(), "dirty", 5, static_cast<off_t>(size) - 5));
  }
  const std::uint64_t before = resident(path);
  ASSERT_GT(before, 3 * kMiB);
  const PinnedOutcome outcome = fill(request_for({path}));
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  expect_copy(outcome.held.at(0), path);
}

TEST_F(PinnedTest, LocksWhatItHolds) {
  const Path path = dir_.write_random("source", 8 * kMiB);
  const PinnedOutcome outcome = fill(request_for({path}));
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  if (outcome.lock_limit) GTEST_SKIP() << *outcome.lock_limit;
  EXPECT_EQ(8 * kMiB, outcome.held.at(0).locked_bytes);
}

TEST_F(PinnedTest, AdoptsAWholeCopyWithoutReadingTheSource) {
  const Path path = dir_.write_random("source", 9 * kMiB + 1);
  make_cold(path);
  ASSERT_FALSE(fill(request_for({path})).error);
  ASSERT_TRUE(tier::seal(*folder_, path.string(), file_of(path).identity));
  use_store(store_);  // as an agent that was started anew

  const PinnedOutcome outcome = fill(request_for({path}));
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  EXPECT_EQ(0U, outcome.bytes_read);
  EXPECT_TRUE(outcome.held.at(0).adopted);
  EXPECT_TRUE(outcome.held.at(0).sealed);
  EXPECT_EQ(0U, resident(path));
  expect_copy(outcome.held.at(0), path);
}

TEST_F(PinnedTest, ACopyThatIsNotWhatWasReadIsMadeAnew) {
  const Path path = dir_.write_random("source", 70 * kMiB);
  ASSERT_FALSE(fill(request_for({path})).error);
  const os::FileIdentity identity = file_of(path).identity;
  ASSERT_TRUE(tier::seal(*folder_, path.string(), identity));
  const Path copy = store_ / ".copies" / tier::copy_name(identity);
  ::chmod(copy.c_str(), 0600);
  const UniqueFd fd(::open(copy.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(1, ::pwrite(fd.get(), "?", 1, 69 * kMiB));

  const PinnedOutcome outcome = fill(request_for({path}));
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  EXPECT_FALSE(outcome.held.at(0).adopted);
  EXPECT_EQ(70 * kMiB, outcome.bytes_read);
  expect_copy(outcome.held.at(0), path);
}

TEST_F(PinnedTest, LeftoversOfAKilledAgentAreNoCopies) {
  const Path path = dir_.write_random("source", kMiB);
  const std::string name = tier::copy_name(file_of(path).identity);
  const Path copies = store_ / ".copies";
  std::ofstream(copies / (name + ".part")) << "half of it";
  std::ofstream(copies / name) << std::string(kMiB, 'x');  // without a manifest
  const PinnedOutcome outcome = fill(request_for({path}));
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  EXPECT_FALSE(outcome.held.at(0).adopted);
  expect_copy(outcome.held.at(0), path);

  std::ofstream(copies / "1-2-3-4-5") << "of a model that nobody wants";
  std::ofstream(copies / "1-2-3-4-5.json") << "{}";
  std::filesystem::create_directories(store_ / "gone" / "deeper");
  std::ofstream(store_ / "gone" / "deeper" / "file") << "x";
  EXPECT_EQ(1U, folder_->sweep({name}, {"model"}).value().size());
  EXPECT_EQ((std::vector<std::string>{name, name + ".json"}), [this] {
    auto names = left_in_store();
    std::sort(names.begin(), names.end());
    return names;
  }());
  EXPECT_FALSE(std::filesystem::exists(store_ / "gone"));
  EXPECT_TRUE(std::filesystem::exists(store_ / "model" / "file"));
}

TEST_F(PinnedTest, AFileThatChangedIsStaleAndLeavesNothing) {
  const Path path = dir_.write_random("source", 4 * kMiB);
  PinnedRequest request = request_for({path});
  std::ofstream(path, std::ios::app) << "more";
  const PinnedOutcome outcome = fill(std::move(request));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::stale, outcome.error->errc());
  EXPECT_TRUE(outcome.held.empty());
  EXPECT_TRUE(left_in_store().empty());
}

/// Rewritten under way, by a read that takes its time.
TEST_F(PinnedTest, AFileRewrittenUnderWayIsStale) {
  const Path path = dir_.write_random("source", 4 * kMiB);
  make_cold(path);
  class Rewriter final : public stream::ReadBackend {
   public:
    explicit Rewriter(Path path) : path_(std::move(path)) {}
    std::size_t depth() const noexcept override { return 1; }
    const char* name() const noexcept override { return "rewriter"; }

   protected:
    Result<void> do_submit(const stream::ReadRequest& request) override {
      if (request.offset == 2 * kMiB) {
        const UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
        EXPECT_EQ(3, ::pwrite(fd.get(), "new", 3, 3 * kMiB));
      }
      return raw_submit(*inner_, request);
    }
    Result<std::vector<RawCompletion>> do_reap(std::chrono::milliseconds timeout) override {
      return raw_reap(*inner_, timeout);
    }
    void do_cancel(std::uint64_t id) noexcept override { raw_cancel(*inner_, id); }

   private:
    Path path_;
    std::unique_ptr<stream::ReadBackend> inner_ = stream::make_pread_backend();
  } reads(path);
  const PinnedOutcome outcome = fill_with(request_for({path}), reads);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::stale, outcome.error->errc());
  EXPECT_TRUE(left_in_store().empty());
}

TEST_F(PinnedTest, AFileCutShortUnderWayIsStale) {
  const Path path = dir_.write_random("source", 6 * kMiB);
  make_cold(path);
  FaultyBackend reads(stream::make_pread_backend());
  reads.eof_at(2);
  const PinnedOutcome outcome = fill_with(request_for({path}), reads);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::stale, outcome.error->errc());
  EXPECT_TRUE(left_in_store().empty());
}

TEST_F(PinnedTest, ShortReadsAreContinued) {
  const Path path = dir_.write_random("source", 6 * kMiB + 100);
  make_cold(path);
  FaultyBackend reads(stream::make_pread_backend());
  reads.short_read_at(1).short_read_at(3).again_at(4);
  const PinnedOutcome outcome = fill_with(request_for({path}), reads);
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  expect_copy(outcome.held.at(0), path);
}

/// Opened, proved, and refused in the middle: some file systems do that.
TEST_F(PinnedTest, WhereDirectReadsAreRefusedItReadsThroughThePageCache) {
  const Path path = dir_.write_random("source", 9 * kMiB + 9);
  make_cold(path);
  FaultyBackend reads(stream::make_pread_backend());
  reads.fail_at(2, EINVAL);
  const PinnedOutcome outcome = fill_with(request_for({path}), reads);
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  EXPECT_EQ(0U, resident(path)) << "what it cached was not given back";
  EXPECT_THAT(outcome.notes, ::testing::Contains(::testing::HasSubstr("through the page cache")));
  expect_copy(outcome.held.at(0), path);
}

TEST_F(PinnedTest, AnErrorOfTheDiskSaysWhere) {
  const Path path = dir_.write_random("source", 6 * kMiB);
  make_cold(path);
  FaultyBackend reads(stream::make_pread_backend());
  reads.fail_at(2, EIO);
  const PinnedOutcome outcome = fill_with(request_for({path}), reads);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::io_error, outcome.error->errc());
  EXPECT_NE(std::string::npos, outcome.error->message().find("offset 2097152"))
      << outcome.error->message();
  EXPECT_TRUE(left_in_store().empty());
}

TEST_F(PinnedTest, AnotherFileOfTheModelIsStillCopied) {
  const Path good = dir_.write_random("good", kMiB);
  const Path bad = dir_.write_random("bad", kMiB);
  PinnedRequest request = request_for({bad, good});
  std::filesystem::remove(bad);
  const PinnedOutcome outcome = fill(std::move(request));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::source_not_found, outcome.error->errc());
  ASSERT_EQ(1U, outcome.held.size());
  expect_copy(outcome.held[0], good);
}

TEST_F(PinnedTest, CancelledLeavesNothing) {
  const Path path = dir_.write_random("source", 4 * kMiB);
  control_->cancel();
  const PinnedOutcome outcome = fill(request_for({path}));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::cancelled, outcome.error->errc());
  EXPECT_TRUE(left_in_store().empty());
}

TEST_F(PinnedTest, TheHeadroomIsKept) {
  const Path path = dir_.write_random("source", 4 * kMiB);
  PinnedRequest request = request_for({path});
  request.min_available = ~std::uint64_t{0} / 2;
  const PinnedOutcome outcome = fill(std::move(request));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(Errc::no_headroom, outcome.error->errc());
  EXPECT_TRUE(left_in_store().empty());
}

TEST_F(PinnedTest, NamesFollowTheFilesAndAreRemoved) {
  const Path a = dir_.write_random("a", kMiB);
  const Path b = dir_.write_random("b", kMiB + 7);
  PinnedOutcome outcome = fill(request_for({a, b}));
  ASSERT_EQ(2U, outcome.held.size());
  const os::FileIdentity& first = outcome.held[0].identity;
  const os::FileIdentity& second = outcome.held[1].identity;
  ASSERT_TRUE(folder_->set_names("org/name", {{"x/one", first}, {"two", second}}));
  const Path model = folder_->path_of("org/name");
  EXPECT_EQ(store_ / "org%2Fname", model);
  EXPECT_EQ(bytes_of(a), bytes_of(model / "x/one"));
  // The same name for other bytes: who has the old one open keeps it whole.
  std::ifstream open(model / "two", std::ios::binary);
  ASSERT_TRUE(folder_->set_names("org/name", {{"two", first}}));
  EXPECT_EQ(bytes_of(a), bytes_of(model / "two"));
  EXPECT_EQ(bytes_of(b), std::string(std::istreambuf_iterator<char>(open), {}));
  EXPECT_FALSE(std::filesystem::exists(model / "x"));
  ASSERT_TRUE(folder_->set_names("org/name", {{"two", first}}));  // again
  EXPECT_EQ(bytes_of(a), bytes_of(model / "two"));
  for (const char* bad : {"../up", "/root", "a//b", "", ".", "a/.."}) {
    EXPECT_FALSE(folder_->set_names("org/name", {{bad, first}})) << bad;
  }
  ASSERT_TRUE(folder_->remove_names("org/name"));
  EXPECT_FALSE(std::filesystem::exists(model));
  EXPECT_TRUE(folder_->remove_names("never was"));
}

TEST_F(PinnedTest, NothingWritableIsGivenAway) {
  const Path a = dir_.write_random("a", kMiB);
  PinnedOutcome outcome = fill(request_for({a}));
  ASSERT_EQ(1U, outcome.held.size());
  const os::FileIdentity& copy = outcome.held[0].identity;
  ASSERT_TRUE(folder_->set_names("m", {{"a", copy}}));
  // This store's readable face is the store itself, which no read-only mount covers.
  const auto given = folder_->open_readable("m", "a", copy);
  ASSERT_FALSE(given);
  EXPECT_EQ(Errc::unavailable, given.error().errc()) << given.error().message();
}

TEST_F(PinnedTest, ACopyIsSeenByWhomTheSourceIsSeenBy) {
  // Where all folders above are open to all.
  ::chmod(store_.c_str(), 0755);
  std::filesystem::create_directories(store_ / "home/models");
  const Path path = store_ / "home/models/source";
  std::ofstream(path) << "weights";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto mode = [&] { return tier::access_of_copy(path.string(), fd.get()).value().mode; };
  ::chmod(path.c_str(), 06755);
  EXPECT_EQ(0444U, mode());
  ::chmod(path.c_str(), 0640);
  EXPECT_EQ(0440U, mode());
  ::chmod(path.c_str(), 0644);
  ::chmod((store_ / "home").c_str(), 0700);
  EXPECT_EQ(0400U, mode()) << "a closed home";
  ::chmod((store_ / "home").c_str(), 0750);
  EXPECT_EQ(0440U, mode()) << "a home that the group may enter";
  ::chmod((store_ / "home").c_str(), 0755);
  EXPECT_EQ(0444U, mode());
  if (::geteuid() == 0) {
    ASSERT_EQ(0, ::chown((store_ / "home/models").c_str(), 0, 12345));
    ::chmod((store_ / "home/models").c_str(), 0750);
    EXPECT_EQ(0400U, mode()) << "a folder of another group";
  }
}

TEST_F(PinnedTest, WhatAnAclSaysIsLeftToLeases) {
  const Path path = dir_.write_random("source", 100);
  // One named user (uid 1000) may read: version 2, then (tag, permissions, id) as setfacl writes
  // it.
  const unsigned char acl[] = {2, 0,    0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,  4,
                               0, 0xe8, 3,   0,   0,   4,   0,  4, 0,   255, 255, 255, 255, 16, 0,
                               4, 0,    255, 255, 255, 255, 32, 0, 4,   0,   255, 255, 255, 255};
  if (::setxattr(path.c_str(), "system.posix_acl_access", acl, sizeof(acl), 0) != 0) {
    GTEST_SKIP() << "no ACLs here: " << std::strerror(errno);
  }
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const tier::CopyAccess access = tier::access_of_copy(path.string(), fd.get()).value();
  EXPECT_EQ(0U, access.uid);
  EXPECT_EQ(0400U, access.mode);
}

}  // namespace
}  // namespace andiron::testing
