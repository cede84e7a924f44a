// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/probe/file_watch.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::probe {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

/// A tmpfs of the test's own, lazily unmounted at the end whatever happened.
class UnmountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mount("andiron-test", folder_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "cannot mount a tmpfs: " << std::strerror(errno);
    }
    mounted_ = true;
    std::ofstream(folder_ / "model.gguf") << "weights";
  }
  void TearDown() override { unmount(); }
  void unmount() {
    if (!mounted_) return;
    EXPECT_EQ(::umount2(folder_.path().c_str(), MNT_DETACH), 0);
    mounted_ = false;
  }
  UniqueFd open_model() const {
    return UniqueFd(::open((folder_ / "model.gguf").c_str(), O_RDONLY | O_CLOEXEC));
  }
  std::vector<FileChange> next_changes() {
    pollfd entry{watch_.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 10000), 1);
    return watch_.drain();
  }

  testing::TempDir folder_;
  bool mounted_ = false;
  FileWatch watch_ = *FileWatch::create();
};

TEST_F(UnmountTest, AWatchNeitherBlocksAnUnmountNorMissesIt) {
  const WatchId file = watch_.add_file(open_model().get()).value();
  const WatchId folder = watch_.add_folder(folder_.path().string()).value();
  ASSERT_EQ(::umount2(folder_.path().c_str(), 0), 0) << std::strerror(errno);
  mounted_ = false;
  const std::vector<FileChange> changes = next_changes();
  EXPECT_THAT(changes, Contains(FileChange{file, FileChange::Kind::gone, {}}));
  EXPECT_THAT(changes, Contains(FileChange{folder, FileChange::Kind::gone, {}}));
}

TEST_F(UnmountTest, ALazyUnmountIsSeenWhenTheLastOpenerLeaves) {
  UniqueFd opener = open_model();
  const WatchId file = watch_.add_file(opener.get()).value();
  unmount();
  EXPECT_THAT(watch_.drain(), IsEmpty());  // the file system lives on, and nothing tells
  opener.reset();
  EXPECT_THAT(next_changes(), Contains(FileChange{file, FileChange::Kind::gone, {}}));
}

}  // namespace
}  // namespace andiron::probe
