// SPDX-License-Identifier: MIT
#include "agent/os/read_right.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "agent/base/unique_fd.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kNobody = 65534;
constexpr gid_t kGroup = 4321;

/// Other users can reach what lies in its folder.
class ReadRightTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    // Somewhere that others can reach: the folder that a test runs in is often closed to them.
    ::setenv("ANDIRON_TEST_DIR", "/var/tmp", 0);
    dir_ = std::make_unique<testing::TempDir>();
    ASSERT_EQ(::chmod(dir_->path().c_str(), 0755), 0);
  }
  FileToRead file(const std::string& name, mode_t mode, gid_t group = 0) const {
    const std::string path = dir_->write(name, "weights").string();
    EXPECT_EQ(::chown(path.c_str(), 0, group), 0);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return {path, stat_path(path).value().identity};
  }
  static Errc refusal(const Reader& who, const std::vector<FileToRead>& files) {
    const auto may = check_may_read(who, files, 10s);
    return may ? Errc{} : may.error().errc();
  }
  const Reader nobody_{kNobody, kNobody, {}, 0};
  const Reader in_group_{kNobody, kNobody, {12, kGroup}, 0};

 private:
  std::unique_ptr<testing::TempDir> dir_;
};

TEST_F(ReadRightTest, IsThatOfTheFilesBits) {
  EXPECT_EQ(refusal(nobody_, {file("open", 0644)}), Errc{});
  EXPECT_EQ(refusal(nobody_, {file("closed", 0600)}), Errc::permission_denied);
  EXPECT_EQ(refusal(nobody_, {file("g", 0640, kGroup)}), Errc::permission_denied);
  EXPECT_EQ(refusal(in_group_, {file("g", 0640, kGroup)}), Errc{});
  EXPECT_EQ(refusal({kNobody, kGroup, {}, 0}, {file("g", 0640, kGroup)}), Errc{});
  EXPECT_EQ(refusal({0, 0, {}, 0}, {file("root", 0000)}), Errc{});
}

TEST_F(ReadRightTest, IsForAllOfTheFiles) {
  EXPECT_EQ(refusal(nobody_, {file("a", 0644), file("b", 0600), file("c", 0644)}),
            Errc::permission_denied);
  EXPECT_EQ(refusal(nobody_, {file("a", 0644), file("c", 0644)}), Errc{});
}

TEST_F(ReadRightTest, CountsTheFoldersAbove) {
  const FileToRead hidden = file("home/hidden", 0644);
  ASSERT_EQ(::chmod(std::filesystem::path(hidden.path).parent_path().c_str(), 0700), 0);
  EXPECT_EQ(refusal(nobody_, {hidden}), Errc::permission_denied);
}

TEST_F(ReadRightTest, IsForThatVeryFile) {
  FileToRead other = file("a", 0644);
  other.identity.ino += 1;
  EXPECT_EQ(refusal(nobody_, {other}), Errc::stale);
  EXPECT_EQ(refusal({0, 0, {}, 0}, {other}), Errc::stale);
}

TEST_F(ReadRightTest, TellsNobodyWhetherAFileIsThere) {
  FileToRead gone = file("a", 0644);
  gone.path += ".gone";
  EXPECT_EQ(refusal(nobody_, {gone}), Errc::permission_denied);
}

TEST_F(ReadRightTest, FollowsNoSymlink) {
  const FileToRead real = file("a", 0644);
  FileToRead link = real;
  link.path += ".link";
  ASSERT_EQ(::symlink(real.path.c_str(), link.path.c_str()), 0);
  EXPECT_NE(refusal(nobody_, {link}), Errc{});
}

TEST_F(ReadRightTest, DoesNotWaitForAFifo) {
  FileToRead fifo = file("a", 0644);
  fifo.path += ".fifo";
  ASSERT_EQ(::mkfifo(fifo.path.c_str(), 0644), 0);
  EXPECT_EQ(refusal(nobody_, {fifo}), Errc::stale);
}

/// Tries to kill another process of such a list, for as long as there is one: 0 once it did.
int try_to_kill_a_sibling(const std::string& children) {
  pid_t sibling = ::getpid();
  while (sibling == ::getpid()) {
    std::ifstream list(children);
    while (list >> sibling && sibling == ::getpid()) {
    }
  }
  int failed = EPERM;
  while (failed == EPERM)
    failed = ::kill(sibling, SIGKILL) == 0 ? 0 : errno;
  return failed;
}

TEST_F(ReadRightTest, IsTriedWhereTheUserCannotInterfere) {
  const std::vector<FileToRead> many(20'000, file("open", 0644));
  const std::string children =
      "/proc/" + std::to_string(::getpid()) + "/task/" + std::to_string(::gettid()) + "/children";
  if (!std::filesystem::exists(children)) GTEST_SKIP() << "no lists of children here";
  const pid_t killer = ::fork();
  ASSERT_GE(killer, 0);
  if (killer == 0) {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(1);
    ::_exit(try_to_kill_a_sibling(children));
  }
  int status = 0;
  do {
    EXPECT_EQ(refusal(nobody_, many), Errc{});
  } while (::waitpid(killer, &status, WNOHANG) == 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), ESRCH);
}

TEST_F(ReadRightTest, OurOwnIdsStayAsTheyWere) {
  EXPECT_EQ(refusal(nobody_, {file("closed", 0600)}), Errc::permission_denied);
  EXPECT_EQ(::geteuid(), 0U);
  EXPECT_EQ(refusal({0, 0, {}, 0}, {file("closed", 0600)}), Errc{});
}

TEST(ReaderOf, IsWhoConnected) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd one(fds[0]);
  const UniqueFd two(fds[1]);
  const Result<Reader> who = reader_of(one.get());
  ASSERT_TRUE(who) << who.error().message();
  EXPECT_EQ(who->uid, ::geteuid());
  EXPECT_EQ(who->gid, ::getegid());
  EXPECT_EQ(who->pid, ::getpid());
  std::vector<gid_t> groups(static_cast<std::size_t>(::getgroups(0, nullptr)));
  ASSERT_EQ(::getgroups(static_cast<int>(groups.size()), groups.data()),
            static_cast<int>(groups.size()));
  EXPECT_EQ(who->groups, groups);
  EXPECT_FALSE(reader_of(STDIN_FILENO));
}

}  // namespace
}  // namespace andiron::os
