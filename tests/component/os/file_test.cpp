// SPDX-License-Identifier: MIT
#include "agent/os/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "agent/os/device.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

TEST(OpenRegular, LeavesADescriptorThatBlocksAndClosesOnExec) {
  const testing::TempDir dir;
  const Result<UniqueFd> fd = open_regular(dir.write("model.gguf", "GGUF"));
  ASSERT_TRUE(fd) << fd.error().message();
  EXPECT_EQ(::fcntl(fd->get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(fd->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(::fcntl(fd->get(), F_GETFL) & O_NOATIME, O_NOATIME);  // the file is our own
  EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(OpenRegular, RefusesWhatIsNoFile) {
  const testing::TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = dir / "sock";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const std::string& odd :
       {(dir / "fifo").string(), path, dir.path().string(), std::string("/dev/null")}) {
    const Result<UniqueFd> fd = open_regular(odd);
    ASSERT_FALSE(fd) << odd;
    EXPECT_EQ(fd.error().errc(), Errc::not_regular_file) << odd;
  }
}

TEST(OpenRegular, GivesTheErrorOfThePath) {
  const testing::TempDir dir;
  std::filesystem::create_symlink("loop", dir / "loop");
  EXPECT_EQ(open_regular(dir / "missing").error().errc(), Errc::source_not_found);
  EXPECT_EQ(open_regular(dir / "loop").error().errc(), Errc::symlink_loop);
}

TEST(FileIdentity, ChangesWithTheFile) {
  const testing::TempDir dir;
  const std::string path = dir.write("a", "one");
  const Result<UniqueFd> fd = open_regular(path);
  ASSERT_TRUE(fd);
  const FileInfo first = *stat_fd(fd->get());
  EXPECT_EQ(first.identity, stat_path(path)->identity);
  EXPECT_EQ(first.identity.size, 3U);
  EXPECT_EQ(first.nlink, 1U);
  std::filesystem::create_hard_link(path, dir / "b");
  EXPECT_EQ(stat_fd(fd->get())->nlink, 2U);
  std::filesystem::rename(dir.write("new", "one"), path);
  EXPECT_NE(stat_path(path)->identity, first.identity);
  EXPECT_FALSE(stat_path(dir / "missing"));
  EXPECT_FALSE(stat_fd(-1));
}

TEST(FilesystemTraits, TellMemoryFromDisk) {
  const UniqueFd memory(::memfd_create("andiron-test", MFD_CLOEXEC));
  ASSERT_TRUE(memory);
  const Result<FilesystemTraits> traits = filesystem_traits(memory.get());
  ASSERT_TRUE(traits);
  EXPECT_EQ(traits->type, "tmpfs");
  EXPECT_TRUE(traits->memory_backed);
  EXPECT_EQ(device_traits(memory.get())->lane, "mem");

  const testing::TempDir dir;
  const Result<UniqueFd> fd = open_regular(dir.write("a", "x"));
  EXPECT_FALSE(filesystem_traits(fd->get())->type.empty());
  EXPECT_FALSE(filesystem_traits(-1));
}

TEST(DeviceTraits, OfARealFileNameALane) {
  const testing::TempDir dir;
  const Result<UniqueFd> fd = open_regular(dir.write("a", "x"));
  const Result<DeviceTraits> traits = device_traits(fd->get());
  ASSERT_TRUE(traits) << traits.error().message();
  EXPECT_FALSE(traits->lane.empty());
  // A disk that a test runs on is awake, or cannot be asked.
  EXPECT_FALSE(in_standby(*traits));
}

}  // namespace
}  // namespace andiron::os
