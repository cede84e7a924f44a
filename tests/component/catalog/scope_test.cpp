// SPDX-License-Identifier: MIT
#include "agent/catalog/scope.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

#include "tests/component/catalog/catalog_fixture.hpp"

namespace andiron::catalog {
namespace {

using ::testing::ElementsAre;

class ScopeTest : public CatalogTest {
 protected:
  ScopeTest() {
    std::filesystem::create_directories(dir_ / "models");
    options_.allow_roots = {path("models")};
  }
};

TEST(IsBelow, CountsWholeComponents) {
  EXPECT_TRUE(is_below("/srv/models", "/srv/models"));
  EXPECT_TRUE(is_below("/srv/models/a", "/srv/models"));
  EXPECT_FALSE(is_below("/srv/models2", "/srv/models"));
  EXPECT_FALSE(is_below("/srv", "/srv/models"));
  EXPECT_TRUE(is_below("/a", "/"));
}

TEST_F(ScopeTest, InsideIsFound) {
  write_gguf("models/deep/a.gguf");
  EXPECT_EQ(error_of(path("models/deep/a.gguf")), "none");
  EXPECT_EQ(error_of(path("models")), "none");
  EXPECT_EQ(error_of(path("models/*/*.gguf")), "none");
  EXPECT_EQ(error_of(path("models/nothing.gguf")), "source_not_found");
}

/// What is not there and what is there get the same answer.
TEST_F(ScopeTest, OutsideIsNotToldApart) {
  write_gguf("models/a.gguf");
  write_gguf("secret/here.gguf");
  write_gguf("models2/here.gguf");
  link("models/to-here", "../secret/here.gguf");
  link("models/to-gone", "../secret/gone.gguf");
  link("models/to-folder", path("secret"));
  link("models/to-no-folder", path("nowhere"));
  for (const char* name :
       {"secret/here.gguf", "secret/gone.gguf", "secret", "nowhere", "models2/here.gguf",
        "models2/gone.gguf", "models/../secret/here.gguf", "models/../secret/gone.gguf",
        "models/to-here", "models/to-gone", "models/to-folder/here.gguf",
        "models/to-folder/gone.gguf", "models/to-no-folder/x", "secret/*", "nowhere/*",
        "models/../secret/*.gguf", "models/to-fold*/*.gguf"}) {
    EXPECT_EQ(error_of(path(name)), "outside_roots") << name;
  }
  EXPECT_EQ(error_of("/etc/passwd"), "outside_roots");
  EXPECT_EQ(error_of("/proc/self/root/etc/passwd"), "outside_roots");
  EXPECT_EQ(error_of("/"), "outside_roots");
  EXPECT_EQ(error_of(path("models/../models/a.gguf")), "none");
}

TEST_F(ScopeTest, CompanionsToo) {
  const std::string file = write_gguf("models/a.gguf");
  EXPECT_EQ(error_of(file, {"/etc/passwd"}), "outside_roots");
  EXPECT_EQ(error_of(file, {"/etc/no-such-file"}), "outside_roots");
}

TEST_F(ScopeTest, AFolderWithALinkThatLeadsOutIsRefused) {
  write_gguf("models/m/a.gguf");
  write_gguf("secret/b.gguf");
  link("models/m/b.gguf", "../../secret/b.gguf");
  EXPECT_EQ(error_of(path("models/m")), "outside_roots");
}

TEST_F(ScopeTest, LinksBetweenRootsAreFine) {
  write_gguf("other/blob");
  link("models/a.gguf", path("other/blob"));
  EXPECT_EQ(error_of(path("models/a.gguf")), "outside_roots");
  options_.allow_roots = {path("models"), path("other/")};
  EXPECT_EQ(error_of(path("models/a.gguf")), "none");
}

TEST_F(ScopeTest, ARootMayBeALink) {
  write_gguf("disk/a.gguf");
  write_gguf("disk2/a.gguf");
  link("linked", "disk");
  options_.allow_roots = {path("linked")};
  EXPECT_THAT(names(find(path("linked/a.gguf"))), ElementsAre("disk/a.gguf"));
  EXPECT_EQ(error_of(path("disk2/a.gguf")), "outside_roots");
}

TEST_F(ScopeTest, NoRootsAllowNothing) {
  write_gguf("models/a.gguf");
  options_.allow_roots = std::vector<std::string>{};
  EXPECT_EQ(error_of(path("models/a.gguf")), "outside_roots");
  options_.allow_roots = {path("no-such-root"), "relative"};
  EXPECT_EQ(error_of(path("models/a.gguf")), "outside_roots");
}

TEST_F(ScopeTest, RootOfEverythingAllowsEverything) {
  write_gguf("models/a.gguf");
  options_.allow_roots = {"/"};
  EXPECT_EQ(error_of(path("models/a.gguf")), "none");
}

/// Refuses openat2 to this process for good, as filters from before it do.
bool refuse_openat2() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(ScopeTest, WorksWithoutOpenat2) {
  write_gguf("models/real/a.gguf");
  write_gguf("secret/b.gguf");
  link("models/linked", "real");
  link("models/out", "../secret");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!refuse_openat2()) ::_exit(77);
    if (error_of(path("models/linked/a.gguf")) != "none") ::_exit(1);
    if (error_of(path("models/out/b.gguf")) != "outside_roots") ::_exit(2);
    if (error_of(path("models/gone")) != "source_not_found") ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

TEST_F(ScopeTest, StoresOutsideAreNotTold) {
  std::filesystem::create_directories(dir_ / "store/manifests");
  std::filesystem::create_directories(dir_ / "store/blobs");
  options_.places.ollama_stores = {path("store")};
  options_.places.hf_caches = {path("hub")};
  EXPECT_EQ(error_of("ollama:x"), "outside_roots");
  EXPECT_EQ(error_of("hf:a/b"), "outside_roots");
}

}  // namespace
}  // namespace andiron::catalog
