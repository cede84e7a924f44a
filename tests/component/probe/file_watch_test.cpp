// SPDX-License-Identifier: MIT
#include "agent/probe/file_watch.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temp_dir.hpp"

namespace andiron::probe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using Kind = FileChange::Kind;

// inotify queues an event before the system call that caused it returns, so one drain sees it.
class FileWatchTest : public ::testing::Test {
 protected:
  FileWatchTest() : path_(folder_.write("model.gguf", "weights")), watch_(*FileWatch::create()) {}

  static UniqueFd open_at(const std::filesystem::path& path, int flags = O_RDONLY) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
    EXPECT_TRUE(fd) << path;
    return fd;
  }
  /// Watches a file by an fd that is closed again: nothing keeps its inode then.
  WatchId add(const std::filesystem::path& path) {
    return watch_.add_file(open_at(path).get()).value();
  }
  bool readable() const {
    pollfd entry{watch_.fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  testing::TempDir folder_;
  std::filesystem::path path_;
  FileWatch watch_;
};

TEST_F(FileWatchTest, AWriteIsSeenWhileTheWriterKeepsItsFdOpen) {
  const WatchId id = add(path_);
  EXPECT_FALSE(readable());
  EXPECT_THAT(watch_.drain(), IsEmpty());
  const UniqueFd writer = open_at(path_, O_WRONLY);
  ASSERT_EQ(::pwrite(writer.get(), "W", 1, 0), 1);
  EXPECT_TRUE(readable());
  EXPECT_THAT(watch_.drain(), ElementsAre(FileChange{id, Kind::content, {}}));
  EXPECT_FALSE(readable());
}

TEST_F(FileWatchTest, ATruncateByPathIsAChangeOfContent) {
  const WatchId id = add(path_);
  ASSERT_EQ(::truncate(path_.c_str(), 3), 0);
  EXPECT_THAT(watch_.drain(), Contains(FileChange{id, Kind::content, {}}));
}

TEST_F(FileWatchTest, ManyWritesAreToldOnce) {
  const WatchId id = add(path_);
  const std::filesystem::path other = folder_.write("other.gguf", "weights");
  const WatchId other_id = add(other);
  const UniqueFd one = open_at(path_, O_WRONLY);
  const UniqueFd two = open_at(other, O_WRONLY);
  for (int i = 0; i < 100; ++i) {  // in turns, or the kernel would merge them itself
    ASSERT_EQ(::pwrite(one.get(), "W", 1, 0), 1);
    ASSERT_EQ(::pwrite(two.get(), "W", 1, 0), 1);
  }
  EXPECT_THAT(watch_.drain(), ElementsAre(FileChange{id, Kind::content, {}},
                                          FileChange{other_id, Kind::content, {}}));
}

TEST_F(FileWatchTest, AReaderIsNoChange) {
  add(path_);
  char byte = 0;
  ASSERT_EQ(::pread(open_at(path_).get(), &byte, 1, 0), 1);
  EXPECT_THAT(watch_.drain(), IsEmpty());
}

TEST_F(FileWatchTest, ARenameOverItIsSeenWithAndWithoutAnOpener) {
  for (const bool opened : {false, true}) {
    SCOPED_TRACE(opened);
    const WatchId id = add(path_);
    const UniqueFd opener = opened ? open_at(path_) : UniqueFd();
    std::filesystem::rename(folder_.write("new", "other weights"), path_);
    const std::vector<FileChange> changes = watch_.drain();
    EXPECT_THAT(changes, Contains(FileChange{id, Kind::attributes, {}}));
    if (opened) {
      EXPECT_THAT(changes, Not(Contains(FileChange{id, Kind::gone, {}})));
    } else {
      EXPECT_THAT(changes, Contains(FileChange{id, Kind::gone, {}}));
    }
  }
}

TEST_F(FileWatchTest, ARenameAwayIsGone) {
  const WatchId id = add(path_);
  std::filesystem::rename(path_, folder_ / "elsewhere");
  EXPECT_THAT(watch_.drain(), Contains(FileChange{id, Kind::gone, {}}));
}

TEST_F(FileWatchTest, AnUnlinkUnderAnOpenFdIsAChangeOfAttributesAndThenGone) {
  const WatchId id = add(path_);
  UniqueFd opener = open_at(path_);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_THAT(watch_.drain(), ElementsAre(FileChange{id, Kind::attributes, {}}));
  struct stat now {};
  ASSERT_EQ(::fstat(opener.get(), &now), 0);
  EXPECT_EQ(now.st_nlink, 0U);
  opener.reset();
  // close(2) lets go of the file before it returns to user space.
  EXPECT_THAT(watch_.drain(), ElementsAre(FileChange{id, Kind::gone, {}}));
}

TEST_F(FileWatchTest, AWatchKeepsNoDeletedFileAlive) {
  const WatchId id = add(path_);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_THAT(watch_.drain(), Contains(FileChange{id, Kind::gone, {}}));
}

TEST_F(FileWatchTest, AFolderTellsNamesThatComeAndGoAndAreWritten) {
  const WatchId id = watch_.add_folder(folder_.path().string()).value();
  folder_.write("a.gguf", "x");
  EXPECT_THAT(watch_.drain(),
              Contains(FileChange{id, Kind::folder, "a.gguf"}).Times(2));  // written
  std::filesystem::rename(folder_ / "a.gguf", folder_ / "b.gguf");
  EXPECT_THAT(watch_.drain(), ElementsAre(FileChange{id, Kind::folder, "a.gguf"},
                                          FileChange{id, Kind::folder, "b.gguf"}));
  std::filesystem::create_directory(folder_ / "sub");
  std::filesystem::remove(folder_ / "b.gguf");
  EXPECT_THAT(watch_.drain(), ElementsAre(FileChange{id, Kind::folder, "sub"},
                                          FileChange{id, Kind::folder, "b.gguf"}));
}

TEST_F(FileWatchTest, AFolderThatIsRemovedIsGone) {
  const std::filesystem::path sub = folder_ / "sub";
  std::filesystem::create_directory(sub);
  const WatchId id = watch_.add_folder(sub.string()).value();
  std::filesystem::remove(sub);
  EXPECT_THAT(watch_.drain(), ElementsAre(FileChange{id, Kind::gone, {}}));
}

TEST_F(FileWatchTest, NothingOfARemovedWatchComes) {
  const WatchId id = add(path_);
  ASSERT_EQ(::truncate(path_.c_str(), 3), 0);
  watch_.remove(id);
  ASSERT_EQ(::truncate(path_.c_str(), 2), 0);
  EXPECT_THAT(watch_.drain(), IsEmpty());
  watch_.remove(id);  // again: nothing
  EXPECT_NE(add(path_), id);
}

TEST_F(FileWatchTest, OneFileOfTwoHoldersIsWatchedUntilBothLetGo) {
  const WatchId id = add(path_);
  std::filesystem::create_hard_link(path_, folder_ / "same.gguf");
  EXPECT_EQ(add(folder_ / "same.gguf"), id);
  watch_.drain();
  watch_.remove(id);
  ASSERT_EQ(::truncate(path_.c_str(), 3), 0);
  EXPECT_THAT(watch_.drain(), Contains(FileChange{id, Kind::content, {}}));
  watch_.remove(id);
  ASSERT_EQ(::truncate(path_.c_str(), 2), 0);
  EXPECT_THAT(watch_.drain(), IsEmpty());
}

TEST_F(FileWatchTest, AnotherThreadsRemoveDoesNotEndAWatchThatIsBeingAdded) {
  const UniqueFd fd = open_at(path_, O_RDWR);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done.load())
      watch_.remove(watch_.add_file(fd.get()).value());
  });
  int missed = 0;
  for (int i = 0; i < 2000; ++i) {
    const WatchId id = watch_.add_file(fd.get()).value();
    EXPECT_EQ(::pwrite(fd.get(), "W", 1, 0), 1);
    // The other thread's ended watches fill the queue too, past its end if this one was not run
    // for a while: to be told of an overflow is to be told.
    bool told = false;
    while (!told && readable()) {
      for (const FileChange& change : watch_.drain()) {
        told = told || change.kind == Kind::overflow || change == FileChange{id, Kind::content, {}};
      }
    }
    missed += told ? 0 : 1;
    watch_.remove(id);
  }
  done.store(true);
  other.join();
  EXPECT_EQ(missed, 0);
}

TEST_F(FileWatchTest, AddsThatCannotBeSayWhy) {
  EXPECT_EQ(watch_.add_file(-1).error().errc(), Errc::source_not_found);
  EXPECT_EQ(watch_.add_folder((folder_ / "none").string()).error().errc(), Errc::source_not_found);
  const auto no_folder = watch_.add_folder(path_.string());
  ASSERT_FALSE(no_folder);
  EXPECT_EQ(no_folder.error().code.value(), ENOTDIR);
  EXPECT_THAT(no_folder.error().message(), ::testing::HasSubstr(path_.string()));
}

TEST_F(FileWatchTest, AQueueThatRanOverSaysSo) {
  std::size_t limit = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> limit;
  if (limit == 0 || limit > 200000) {
    GTEST_SKIP() << "max_queued_events is " << limit << ", too many to fill in a test";
  }
  const std::filesystem::path other = folder_.write("other.gguf", "weights");
  const WatchId id = add(path_);
  add(other);
  const UniqueFd one = open_at(path_, O_WRONLY);
  const UniqueFd two = open_at(other, O_WRONLY);
  for (std::size_t i = 0; i < limit / 2 + 10; ++i) {
    ASSERT_EQ(::pwrite(one.get(), "W", 1, 0), 1);
    ASSERT_EQ(::pwrite(two.get(), "W", 1, 0), 1);
  }
  bool overflow = false;
  for (std::size_t drains = 0; readable(); ++drains) {
    ASSERT_LE(drains, limit);
    const std::vector<FileChange> changes = watch_.drain();
    EXPECT_LE(changes.size(), 3U);
    overflow = overflow ||
               std::count(changes.begin(), changes.end(), FileChange{-1, Kind::overflow, {}}) == 1;
  }
  EXPECT_TRUE(overflow);
  ASSERT_EQ(::truncate(path_.c_str(), 3), 0);
  EXPECT_THAT(watch_.drain(), Contains(FileChange{id, Kind::content, {}}));
}

}  // namespace
}  // namespace andiron::probe
