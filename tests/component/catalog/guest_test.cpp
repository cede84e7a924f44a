// SPDX-License-Identifier: MIT
// Sources in a guest whose tree is hostile. The guest is a folder that a process of a false /proc
// has for its root; paths in it, and what leads out of it, are real.
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "agent/base/unique_fd.hpp"
#include "agent/catalog/scope.hpp"
#include "tests/component/catalog/catalog_fixture.hpp"

namespace andiron::catalog {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kDigest(64, 'd');

class GuestTest : public CatalogTest {
 protected:
  GuestTest() {
    write("cgroup/cgroup.controllers", "");
    write("cgroup/lxc.payload.box/cgroup.procs", "42\n");
    write("proc/42/status", "NSpid:\t42\t1\n");
    fs::create_directories(dir_ / "box");
    link("proc/42/root", path("box"));
    options_.guests = {path("cgroup"), path("proc")};
  }
  /// An open or a read of `path` by anybody from now on is told.
  void guard(const std::string& path) {
    watch_ = UniqueFd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    ASSERT_GE(::inotify_add_watch(watch_.get(), path.c_str(), IN_OPEN | IN_ACCESS), 0);
  }
  bool was_opened() const {
    char buffer[4096];
    return ::read(watch_.get(), buffer, sizeof buffer) > 0;
  }
  std::vector<std::string> paths(const Result<Resolved>& resolved) const {
    if (!resolved) return {"error: " + resolved.error().message()};
    std::vector<std::string> found;
    for (const ModelFile& file : resolved->files)
      found.push_back(file.path);
    return found;
  }
  void write_store(const std::string& store, const std::string& model) const {
    const std::string blob = write_gguf(store + "/blobs/sha256-" + kDigest);
    write(store + "/manifests/registry.ollama.ai/library/" + model + "/latest",
          R"({"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model",)"
          R"("digest":"sha256:)" +
              kDigest + R"(","size":)" + std::to_string(fs::file_size(blob)) + "}]}");
  }

  UniqueFd watch_;
};

TEST_F(GuestTest, PathsAreThoseOfTheGuest) {
  const std::string file = write_gguf("box/srv/a.gguf");
  write_gguf("box/srv/b.gguf");
  const auto found = find("guest:box:/srv/a.gguf");
  EXPECT_THAT(paths(found), ElementsAre("guest:box:/srv/a.gguf"));
  ASSERT_TRUE(found);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(found->files[0].identity.ino, status.st_ino);
  const auto both = ElementsAre("guest:box:/srv/a.gguf", "guest:box:/srv/b.gguf");
  EXPECT_THAT(paths(find("guest:box:/srv")), both);
  EXPECT_THAT(paths(find("guest:box:/*/?.gguf")), both);
  EXPECT_THAT(paths(find("guest:box:/srv/a.gguf", {"guest:box:/srv/b.gguf"})), both);
}

TEST_F(GuestTest, WhatIsWrongIsTold) {
  EXPECT_THAT(message_of("guest:other:/x"), HasSubstr("guest other is not running"));
  EXPECT_THAT(message_of("guest:other:ollama:x"), HasSubstr("guest other is not running"));
  EXPECT_EQ(error_of("guest:other:hf:a/b"), "source_not_found");
  EXPECT_EQ(error_of("guest:box:/none"), "source_not_found");
  EXPECT_EQ(error_of("guest:box:none"), "source_not_found");
  EXPECT_EQ(error_of("guest:box"), "source_not_found");
}

TEST_F(GuestTest, ASourceOverTheSocketCannotLieInAGuest) {
  const std::string file = write_gguf("box/srv/a.gguf");
  write_store("box/root/.ollama/models", "tiny");
  options_.allow_roots = {"/"};
  for (const char* source : {"guest:box:/srv/a.gguf", "guest:box:/none", "guest:other:/srv/a.gguf",
                             "guest:box:ollama:tiny", "guest:box:hf:a/b"}) {
    EXPECT_EQ(error_of(source), "outside_roots") << source;
  }
  EXPECT_EQ(error_of(file, {"guest:box:/srv/a.gguf"}), "outside_roots");
}

TEST_F(GuestTest, AbsoluteLinksLeadToWhatTheyMeanInThere) {
  const std::string secret = write_gguf("secret/host.gguf", '\2');
  link("box/srv/a.gguf", secret);
  link("box/srv/up.gguf", "../../../../../../../../../../../.." + secret);
  link("box/srv/folder", path("secret"));
  guard(secret);
  for (const char* source : {"guest:box:/srv/a.gguf", "guest:box:/srv/up.gguf",
                             "guest:box:/srv/folder/host.gguf", "guest:box:/srv/folder",
                             "guest:box:/../secret/host.gguf", "guest:box:/srv/folder/*.gguf"}) {
    EXPECT_EQ(error_of(source), "source_not_found") << source;
  }
  // The guest has a file of that path.
  const std::string inner = write_gguf("box" + secret, '\3');
  struct stat status {};
  ASSERT_EQ(::stat(inner.c_str(), &status), 0);
  for (const char* source : {"guest:box:/srv/a.gguf", "guest:box:/srv/up.gguf",
                             "guest:box:/srv/folder/host.gguf", "guest:box:/srv/folder"}) {
    const auto found = find(source);
    ASSERT_THAT(paths(found), ElementsAre("guest:box:" + secret)) << source;
    EXPECT_EQ(found->files[0].identity.ino, status.st_ino) << source;
  }
  EXPECT_FALSE(was_opened());
  guard(inner);
  EXPECT_EQ(error_of("guest:box:/srv/a.gguf"), "none");
  EXPECT_TRUE(was_opened());  // so the guard works
}

TEST_F(GuestTest, OddThingsAreRefused) {
  ASSERT_EQ(::mkfifo((dir_ / "box/pipe.gguf").c_str(), 0600), 0);
  link("box/loop.gguf", "/loop.gguf");
  link("box/null.gguf", "/dev/null");
  write("box/dev/none", "");
  EXPECT_EQ(error_of("guest:box:/pipe.gguf"), "not_regular_file");
  EXPECT_EQ(error_of("guest:box:/loop.gguf"), "symlink_loop");
  EXPECT_EQ(error_of("guest:box:/null.gguf"), "source_not_found");
}

TEST_F(GuestTest, StoresAreFoundWhereTheGuestHasThem) {
  write_store("box/root/.ollama/models", "a");
  write_store("box/home/kim/.ollama/models", "b");
  write_store("box/data/store", "c");
  write("box/etc/systemd/system/ollama.service", "[Service]\nExecStart=/usr/bin/ollama serve\n");
  write("box/etc/systemd/system/ollama.service.d/here.conf",
        "[Service]\nEnvironment=\"OLLAMA_MODELS=/models\"\n");
  link("box/models", "/data/store");
  const std::string blob = "/blobs/sha256-" + kDigest;
  EXPECT_THAT(paths(find("guest:box:ollama:a")),
              ElementsAre("guest:box:/root/.ollama/models" + blob));
  EXPECT_THAT(paths(find("guest:box:ollama:b")),
              ElementsAre("guest:box:/home/kim/.ollama/models" + blob));
  const auto found = find("guest:box:ollama:c");
  EXPECT_THAT(paths(found), ElementsAre("guest:box:/data/store" + blob));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->watch, ::testing::Contains("guest:box:/models"));
  EXPECT_THAT(message_of("guest:box:ollama:none"), HasSubstr("looked in 3"));
  write_gguf("box/root/.cache/huggingface/hub/models--o--n/snapshots/main/m.gguf");
  EXPECT_THAT(paths(find("guest:box:hf:o/n")),
              ElementsAre("guest:box:/root/.cache/huggingface/hub/models--o--n/snapshots/main/"
                          "m.gguf"));
}

/// A store's files that are not what they seem, where text is read: a FIFO would never end.
TEST_F(GuestTest, AHostileServiceFileIsPassedOver) {
  const std::string secret = write("secret/unit", "Environment=OLLAMA_MODELS=/data\n");
  fs::create_directories(dir_ / "box/etc/systemd/system/ollama.service.d");
  ASSERT_EQ(::mkfifo((dir_ / "box/etc/systemd/system/ollama.service").c_str(), 0600), 0);
  link("box/etc/systemd/system/ollama.service.d/a.conf", secret);
  write_store("box/data", "tiny");
  guard(secret);
  EXPECT_THAT(message_of("guest:box:ollama:tiny"), HasSubstr("looked in 0"));
  EXPECT_FALSE(was_opened());
}

/// The guest swaps a folder for a link out, all the while.
TEST_F(GuestTest, ASwapUnderOurFeetLeadsNowhere) {
  const std::string secret = write_gguf("secret/m.gguf", '\2');
  const std::string inner = write_gguf("box/real/m.gguf", '\3');
  link("box/out", path("secret"));
  fs::create_directories(dir_ / "box/srv");
  fs::rename(dir_ / "box/real", dir_ / "box/srv/m");
  struct stat status {};
  ASSERT_EQ(::stat((dir_ / "box/srv/m/m.gguf").c_str(), &status), 0);
  guard(secret);
  std::atomic<bool> done = false;
  std::atomic<int> swaps = 0;
  std::thread guest([&] {
    for (; !done; ++swaps)
      ::renameat2(AT_FDCWD, (dir_ / "box/srv/m").c_str(), AT_FDCWD, (dir_ / "box/out").c_str(),
                  RENAME_EXCHANGE);
  });
  int found = 0;
  for (int i = 0; i < 20'000 && (i < 500 || found == 0 || swaps < 500); ++i) {
    const auto resolved = find("guest:box:/srv/m/m.gguf");
    if (!resolved) continue;
    ++found;
    EXPECT_EQ(resolved->files[0].identity.ino, status.st_ino);
  }
  done = true;
  guest.join();
  EXPECT_GT(found, 0);
  EXPECT_FALSE(was_opened());
}

TEST(ParentPath, EndsAtTheGuestsRoot) {
  EXPECT_EQ(parent_path("/a/b"), "/a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("guest:x:/a/b"), "guest:x:/a");
  EXPECT_EQ(parent_path("guest:x:/a"), "guest:x:/");
  EXPECT_EQ(join_path("guest:x:/", "a"), "guest:x:/a");
}

}  // namespace
}  // namespace andiron::catalog
