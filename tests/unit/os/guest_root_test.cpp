// SPDX-License-Identifier: MIT
// Which process's root is taken for a guest's: on trees that look like /sys/fs/cgroup and /proc.
#include "agent/os/guest_root.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "agent/os/path_opener.hpp"
#include "agent/os/text_file.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

namespace fs = std::filesystem;

class GuestRootTest : public ::testing::Test {
 protected:
  GuestRootTest() : places_{(dir_ / "cgroup").string(), (dir_ / "proc").string()} {
    dir_.write("cgroup/cgroup.controllers", "");
    dir_.write("proc/self/status", "Name:\tx\nNSpid:\t7\n");
  }
  /// A cgroup with processes.
  void group(const std::string& path, const std::string& pids) const {
    dir_.write("cgroup/" + path + "/cgroup.procs", pids);
  }
  /// A process whose root has a file "name" that says `root`.
  void process(int pid, const std::string& root, const std::string& pids) const {
    dir_.write(root + "/name", root);
    const std::string folder = "proc/" + std::to_string(pid);
    dir_.write(folder + "/status", "Name:\tx\nNSpid:\t" + pids + "\nUid:\t0\n");
    fs::create_symlink(dir_ / root, dir_ / folder / "root");
  }
  /// What "name" says in the root that was taken, or the error.
  std::string taken(const std::string& guest) const {
    PathOpener opener(places_);
    const auto fd = opener.open_regular("guest:" + guest + ":/name");
    if (!fd) return std::string(error_name(fd.error().errc())) + " " + fd.error().context;
    return read_text("/proc/self/fd/" + std::to_string(fd->get())).value_or("?");
  }

  testing::TempDir dir_;
  GuestPlaces places_;
};

TEST_F(GuestRootTest, GuestsOfAllKindsAreFound) {
  group("lxc.payload.a", "10\n");
  group("lxc/101/ns", "11\n");  // Proxmox: none in the guest's own
  group("machine.slice/machine-c\\x2dc.scope/payload", "12\n");
  group("system.slice/systemd-nspawn@d.service/payload/init.scope", "13\n");
  for (const auto& [pid, name] : {std::pair(10, "a"), {11, "b"}, {12, "c"}, {13, "d"}})
    process(pid, name, std::to_string(pid) + "\t1");
  EXPECT_EQ(taken("a"), "a");
  EXPECT_EQ(taken("101"), "b");
  EXPECT_EQ(taken("c-c"), "c");
  EXPECT_EQ(taken("d"), "d");
  EXPECT_EQ(taken("e"), "source_not_found guest e is not running");
}

TEST_F(GuestRootTest, TheInitDecides) {
  // A container in the guest, and a process that changed its root, come first in order.
  group("lxc.payload.a/docker/x", "20\n");
  group("lxc.payload.a/a.service", "21\n");
  group("lxc.payload.a/init.scope", "22\n23\n");
  process(20, "nested", "20\t90\t1");
  process(21, "chroot", "21\t50");
  process(22, "other", "22\t60");
  process(23, "init", "23\t1");
  EXPECT_EQ(taken("a"), "init");
  // Where none can be told to be the init, any process of the guest will do.
  fs::remove_all(dir_ / "proc/23");
  EXPECT_EQ(taken("a"), "other");
}

TEST_F(GuestRootTest, AHelperThatIsNotInTheGuestIsPassedOver) {
  group("lxc.payload.a", "30\n");
  process(30, "unused", "30");
  fs::remove(dir_ / "proc/30/root");
  fs::create_symlink("/", dir_ / "proc/30/root");
  EXPECT_EQ(taken("a"), "source_not_found guest a is starting, or has no root folder of its own");
  group("lxc.payload.a", "30\n31\n");
  process(31, "inside", "31\t1");
  EXPECT_EQ(taken("a"), "inside");
}

TEST_F(GuestRootTest, NamesInOtherGuestsAndServicesDoNotCount) {
  group("lxc.payload.evil/lxc.payload.a", "40\n");
  group("user.slice/user@1000.service/lxc.payload.a", "40\n");
  process(40, "evil", "40\t1");
  EXPECT_EQ(taken("a"), "source_not_found guest a is not running");
  group("a.service", "40\n");
  EXPECT_EQ(taken("a"), "source_not_found guest a is not running");
}

/// The process has ended, and another has its number, between the look at the cgroup and that at
/// the root.
TEST_F(GuestRootTest, AProcessThatLeftIsNotTaken) {
  process(50, "stranger", "50\t1");
  fs::create_directories(dir_ / "cgroup/lxc.payload.a");
  const std::string procs = (dir_ / "cgroup/lxc.payload.a/cgroup.procs").string();
  ASSERT_EQ(::mkfifo(procs.c_str(), 0600), 0);
  std::thread kernel([&] {
    for (const std::string_view text : {"50\n", ""}) {
      // Opening waits for the reader, and closing ends its file.
      const UniqueFd fd(::open(procs.c_str(), O_WRONLY | O_CLOEXEC));
      EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
      // The next reader is another one.
      fs::remove(procs);
      if (!text.empty()) {
        EXPECT_EQ(::mkfifo(procs.c_str(), 0600), 0);
      }
    }
  });
  EXPECT_EQ(taken("a"), "source_not_found guest a is not running");
  const UniqueFd second_look(::open(procs.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // if none
  kernel.join();
}

TEST_F(GuestRootTest, NoSymlinkIsFollowedInAGuest) {
  group("lxc.payload.a", "60\n");
  process(60, "guest", "60\t1");
  dir_.write("secret", "secret");
  dir_.write("guest/real/file", "in the guest");
  fs::create_symlink((dir_ / "secret").string(), dir_ / "guest/file");
  fs::create_symlink(dir_.path().string(), dir_ / "guest/folder");
  ASSERT_EQ(::mkfifo((dir_ / "guest/pipe").c_str(), 0600), 0);
  PathOpener opener(places_);
  const auto error = [&](const std::string& path) {
    const auto fd = opener.open_regular("guest:a:" + path);
    return fd ? "none" : std::string(error_name(fd.error().errc()));
  };
  EXPECT_EQ(error("/real/file"), "none");
  EXPECT_EQ(error("/real/../../../real/file"), "none");  // ".." ends at the guest's root
  EXPECT_EQ(error("/file"), "not_regular_file");
  EXPECT_EQ(error("/folder/secret"), "symlink_loop");
  EXPECT_EQ(error("/../secret"), "source_not_found");
  EXPECT_EQ(error("/pipe"), "not_regular_file");
  EXPECT_EQ(error("/real"), "not_regular_file");
}

TEST_F(GuestRootTest, TheNearestFolderIsOneOfTheGuest) {
  group("lxc.payload.a", "70\n");
  process(70, "guest", "70\t1");
  fs::create_directories(dir_ / "guest/srv");
  fs::create_symlink("/", dir_ / "guest/srv/host");
  PathOpener opener(places_);
  const auto inode = [&](const std::string& path) -> ino_t {
    const auto fd = opener.open_nearest_folder(path);
    struct stat status {};
    return fd && ::fstat(fd->get(), &status) == 0 ? status.st_ino : 0;
  };
  struct stat srv {};
  ASSERT_EQ(::stat((dir_ / "guest/srv").c_str(), &srv), 0);
  EXPECT_EQ(inode("guest:a:/srv/host/etc/x"), srv.st_ino);
  EXPECT_EQ(inode("guest:a:/srv/gone/x"), srv.st_ino);
  EXPECT_EQ(inode((dir_ / "guest/srv/gone").string()), srv.st_ino);
  EXPECT_EQ(inode("guest:b:/srv"), 0U);
}

TEST_F(GuestRootTest, WithoutCgroupsThereAreNoGuests) {
  fs::remove_all(dir_ / "cgroup");
  EXPECT_TRUE(taken("a").starts_with("unavailable guest a cannot be found")) << taken("a");
  EXPECT_EQ(probe_guests(places_).state, Capability::State::off);
}

}  // namespace
}  // namespace andiron::os
