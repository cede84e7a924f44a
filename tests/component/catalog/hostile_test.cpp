// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/unique_fd.hpp"
#include "tests/component/catalog/catalog_fixture.hpp"

namespace andiron::catalog {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using HostileTest = CatalogTest;

TEST_F(HostileTest, AFifoHangsNobody) {
  ASSERT_EQ(::mkfifo(path("a.gguf").c_str(), 0600), 0);
  EXPECT_EQ(error_of(path("a.gguf")), "not_regular_file");
  EXPECT_EQ(error_of(dir_.path().string()), "source_not_found");
  EXPECT_EQ(error_of(path("*.gguf")), "source_not_found");
  const std::string file = write_gguf("b.gguf");
  const auto resolved = find(dir_.path().string());
  EXPECT_THAT(names(resolved), ElementsAre("b.gguf"));
  EXPECT_TRUE(any_note(resolved, "a.gguf is no regular file"));
  const auto companions = find(file, {dir_.path().string()});
  EXPECT_TRUE(any_note(companions, "a.gguf is no regular file"));
}

TEST_F(HostileTest, DevicesAndSocketsAreNoFiles) {
  EXPECT_EQ(error_of("/dev/zero"), "not_regular_file");
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // Bound by a relative name, since the folder's path may be longer than sun_path.
  const UniqueFd before(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::chdir(dir_.path().c_str()), 0);
  std::string("s.gguf").copy(address.sun_path, sizeof address.sun_path - 1);
  const int bound =
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ASSERT_EQ(::fchdir(before.get()), 0);
  ASSERT_EQ(bound, 0);
  EXPECT_EQ(error_of(path("s.gguf")), "not_regular_file");
}

TEST_F(HostileTest, LoopsOfSymlinksEnd) {
  link("a.gguf", "b.gguf");
  link("b.gguf", "a.gguf");
  EXPECT_EQ(error_of(path("a.gguf")), "symlink_loop");
  EXPECT_EQ(error_of(path("a.gguf/x")), "symlink_loop");
  EXPECT_EQ(error_of(dir_.path().string()), "symlink_loop");
}

TEST_F(HostileTest, FortyLinksAreFollowedAndNoMore) {
  write_gguf("0");
  for (int i = 1; i <= 41; ++i)
    link(std::to_string(i), std::to_string(i - 1));
  EXPECT_EQ(error_of(path("40")), "none");
  EXPECT_EQ(error_of(path("41")), "symlink_loop");
}

TEST_F(HostileTest, LoopsOfFoldersEnd) {
  write_gguf("m/sub/a.gguf");
  link("m/sub/up", "../..");
  link("m/self", ".");
  const auto resolved = find(path("m"));
  EXPECT_THAT(names(resolved), ElementsAre("m/sub/a.gguf"));
  EXPECT_TRUE(any_note(resolved, "leads back"));
}

TEST_F(HostileTest, FoldersAreEnteredSixteenDeep) {
  std::string deep = "m";
  write_gguf("m/here.gguf");
  for (int i = 0; i < 16; ++i)
    deep += "/d";
  write_gguf(deep + "/last.gguf");
  write_gguf(deep + "/d/beyond.gguf");
  const auto resolved = find(path("m"));
  EXPECT_THAT(names(resolved), ElementsAre("m/here.gguf", deep + "/last.gguf"));
  EXPECT_TRUE(any_note(resolved, "more than 16 folders deep"));
}

TEST_F(HostileTest, FilesAreBounded) {
  const std::string file = write_gguf("a.gguf");
  for (int i = 0; i < 4095; ++i)
    write("many/" + std::to_string(i), "");
  const auto resolved = find(file, {path("many")});
  ASSERT_TRUE(resolved) << resolved.error().message();
  EXPECT_THAT(resolved->files, SizeIs(4096));
  write("many/one-more", "");
  EXPECT_EQ(error_of(file, {path("many")}), "too_large");
}

TEST_F(HostileTest, ADanglingLinkAmongWeightsIsIncomplete) {
  write_gguf("m/a.gguf");
  link("m/b.gguf", "../gone");
  EXPECT_EQ(error_of(path("m")), "incomplete_shards");
  EXPECT_EQ(error_of(path("m/b.gguf")), "source_not_found");
}

TEST_F(HostileTest, ASparseHeaderOfTerabytesIsRefusedInBoundedMemory) {
  // 1 TiB of zeros behind a header that promises as much in metadata.
  const std::string file =
      write("a.gguf", testing::ByteString().raw("GGUF").u32(3).u64(0).u64(1ULL << 36).bytes());
  std::error_code no_room;
  std::filesystem::resize_file(file, 1ULL << 40, no_room);
  if (no_room) GTEST_SKIP() << "no sparse files of 1 TiB here: " << no_room.message();
  EXPECT_EQ(error_of(file), "bad_format");  // an empty key
  const std::string lengths =
      write("b.safetensors", testing::ByteString().u64(64ULL << 30).raw("{").bytes());
  std::filesystem::resize_file(lengths, 1ULL << 40);
  EXPECT_EQ(error_of(lengths), "too_large");
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(usage.ru_maxrss, 200 * 1024);  // KiB; of all tests in this program
#endif
}

/// As another user, in a child: root may read everything.
TEST_F(HostileTest, PermissionDenied) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  const std::string file = write_gguf("a.gguf");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  write_gguf("closed/b.gguf");
  std::filesystem::permissions(path("closed"), std::filesystem::perms::owner_all);
  for (auto folder = dir_.path(); folder != "/"; folder = folder.parent_path()) {
    struct stat status = {};
    ASSERT_EQ(::stat(folder.c_str(), &status), 0);
    if (folder == dir_.path())
      ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
    else if ((status.st_mode & 1) == 0)
      GTEST_SKIP() << folder << " lets nobody else through";
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(9);
    if (error_of(file) != "permission_denied") ::_exit(1);
    if (error_of(path("closed/b.gguf")) != "permission_denied") ::_exit(2);
    if (error_of(path("closed")) != "permission_denied") ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

}  // namespace
}  // namespace andiron::catalog
