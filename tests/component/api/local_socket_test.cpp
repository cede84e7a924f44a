// SPDX-License-Identifier: MIT
#include "agent/api/local_socket.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace andiron::api {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNoGroup = "andiron-test-no-such-group";

class LocalSocketTest : public ::testing::Test {
 protected:
  std::string path() const { return (dir_ / "control.sock").string(); }
  struct stat status() const {
    struct stat result {};
    EXPECT_EQ(::lstat(path().c_str(), &result), 0) << std::strerror(errno);
    return result;
  }
  int connect_error() const {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().c_str(), path().size());
    const auto* any = reinterpret_cast<const sockaddr*>(&address);
    return ::connect(fd.get(), any, sizeof address) == 0 ? 0 : errno;
  }

  testing::TempDir dir_;
};

TEST_F(LocalSocketTest, IsForItsOwnerAloneWithoutTheGroup) {
  const mode_t usual = ::umask(0);
  const auto socket = LocalSocket::create(path(), kNoGroup);
  ::umask(usual);
  ASSERT_TRUE(socket) << socket.error().message();
  EXPECT_TRUE(socket->group_missing());
  EXPECT_TRUE(S_ISSOCK(status().st_mode));
  EXPECT_EQ(status().st_mode & 07777U, 0600U);
  EXPECT_EQ(connect_error(), 0);
}

TEST_F(LocalSocketTest, IsForTheGroupWhereThereIsOne) {
  // The process's own group, or where it is root, one that is not its own.
  const group* entry = ::getuid() == 0 ? ::getgrnam("daemon") : ::getgrgid(::getgid());
  if (entry == nullptr) GTEST_SKIP() << "this machine names no group to try";
  const gid_t gid = entry->gr_gid;
  const std::string name = entry->gr_name;
  const mode_t usual = ::umask(077);
  const auto socket = LocalSocket::create(path(), name);
  ::umask(usual);
  ASSERT_TRUE(socket) << socket.error().message();
  EXPECT_FALSE(socket->group_missing());
  EXPECT_EQ(status().st_mode & 07777U, 0660U);
  EXPECT_EQ(status().st_gid, gid);
}

TEST_F(LocalSocketTest, ReplacesAStaleSocketAndTakesItsNameAway) {
  {
    const UniqueFd stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().c_str(), path().size());
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_EQ(connect_error(), ECONNREFUSED);
  {
    const auto socket = LocalSocket::create(path(), kNoGroup);
    ASSERT_TRUE(socket) << socket.error().message();
    EXPECT_EQ(connect_error(), 0);
  }
  EXPECT_EQ(connect_error(), ENOENT);
}

TEST_F(LocalSocketTest, LeavesAFileInItsPlaceAlone) {
  dir_.write("control.sock", "precious");
  const auto socket = LocalSocket::create(path(), kNoGroup);
  ASSERT_FALSE(socket);
  EXPECT_THAT(socket.error().message(), HasSubstr(path()));
  EXPECT_THAT(socket.error().message(), HasSubstr("not a socket"));
  EXPECT_EQ(std::filesystem::file_size(path()), 8U);
}

TEST_F(LocalSocketTest, LeavesASymlinkInItsPlaceAlone) {
  const std::string target = dir_.write("target", "precious").string();
  ASSERT_EQ(::symlink(target.c_str(), path().c_str()), 0);
  EXPECT_FALSE(LocalSocket::create(path(), kNoGroup));
  EXPECT_TRUE(S_ISLNK(status().st_mode));
  EXPECT_TRUE(std::filesystem::exists(target));
}

TEST_F(LocalSocketTest, LeavesASuccessorAlone) {
  auto socket = LocalSocket::create(path(), kNoGroup);
  ASSERT_TRUE(socket);
  ASSERT_EQ(::rename(path().c_str(), (path() + ".old").c_str()), 0);
  dir_.write("control.sock", "another");
  { const LocalSocket gone = std::move(*socket); }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(LocalSocketTest, LeavesANameThatSomebodyElseMadeAlone) {
  auto made = LocalSocket::create(path(), kNoGroup);
  ASSERT_TRUE(made);
  {
    const auto adopted = LocalSocket::adopt(made->take_fd(), kNoGroup);
    ASSERT_TRUE(adopted) << adopted.error().message();
    EXPECT_TRUE(adopted->group_missing());
    EXPECT_TRUE(adopted->in_place());
    ASSERT_EQ(::rename(path().c_str(), (path() + ".old").c_str()), 0);
    EXPECT_TRUE(adopted->in_place());  // not ours to miss
    ASSERT_EQ(::rename((path() + ".old").c_str(), path().c_str()), 0);
  }
  EXPECT_TRUE(S_ISSOCK(status().st_mode));
}

TEST_F(LocalSocketTest, SaysThatAPathIsTooLong) {
  const std::string longest = "/tmp/" + std::string(102, 'x');  // 107 bytes
  const auto too_long = LocalSocket::create(longest + "x", kNoGroup);
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error().message(), HasSubstr("108 bytes long"));
  EXPECT_THAT(too_long.error().message(), HasSubstr("may have 107"));
  EXPECT_TRUE(LocalSocket::create(longest, kNoGroup));
  EXPECT_FALSE(LocalSocket::create("", kNoGroup));
}

TEST_F(LocalSocketTest, SaysThatTheFolderIsMissing) {
  const auto socket = LocalSocket::create((dir_ / "no/s").string(), kNoGroup);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code.value(), ENOENT);
}

TEST_F(LocalSocketTest, IsNotInherited) {
  auto socket = LocalSocket::create(path(), kNoGroup);
  ASSERT_TRUE(socket);
  const UniqueFd fd = socket->take_fd();
  EXPECT_EQ(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::fcntl(fd.get(), F_GETFL) & O_NONBLOCK, O_NONBLOCK);
}

}  // namespace
}  // namespace andiron::api
