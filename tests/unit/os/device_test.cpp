// SPDX-License-Identifier: MIT
#include "agent/os/device.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <vector>

#include "agent/base/unique_fd.hpp"
#include "agent/base/units.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

/// A /sys with a spinning disk of two partitions, an NVMe, a dm volume and a btrfs.
class Device : public ::testing::Test {
 protected:
  Device() {
    disk("sda", "8:0", "1", "1280", "128");
    partition("sda", "sda1", "8:1");
    partition("sda", "sda2", "8:2");
    disk("nvme0n1", "259:0", "0", "512", "4096");
    disk("dm-0", "253:0", "0", "256", "64");
    tree.write("devices/dm-0/dm/name", "vg-models\n");
    tree.write("fs/btrfs/e0e0c7b7-6cd9-466d-ab1b-5d997e33a082/bdi/read_ahead_kb", "1024\n");
    tree.write("fs/btrfs/e0e0c7b7-6cd9-466d-ab1b-5d997e33a082/devices/sda2", "");
    tree.write("fs/btrfs/features/acl", "");
    tree.write("class/bdi/0:52/read_ahead_kb", "15360\n");
  }

  void disk(const std::string& name, const std::string& number, const char* rotational,
            const char* max_kb, const char* read_ahead_kb) {
    const std::string folder = "devices/" + name;
    tree.write(folder + "/dev", number + "\n");
    tree.write(folder + "/queue/rotational", rotational);
    tree.write(folder + "/queue/max_sectors_kb", max_kb);
    tree.write(folder + "/queue/read_ahead_kb", "1");
    tree.write("class/bdi/" + number + "/read_ahead_kb", read_ahead_kb);
    link(folder, name, number);
  }
  void partition(const std::string& disk, const std::string& name, const std::string& number) {
    const std::string folder = "devices/" + disk + "/" + name;
    tree.write(folder + "/dev", number + "\n");
    tree.write(folder + "/partition", "1\n");
    link(folder, name, number);
  }
  void link(const std::string& folder, const std::string& name, const std::string& number) {
    std::filesystem::create_directories(tree / "dev/block");
    std::filesystem::create_directories(tree / "class/block");
    std::filesystem::create_directory_symlink(tree / folder, tree / ("dev/block/" + number));
    std::filesystem::create_directory_symlink(tree / folder, tree / ("class/block/" + name));
  }
  /// Of a file on the mount with `id` in `mountinfo`.
  DeviceTraits traits(const std::string& device, const std::string& mountinfo = "",
                      std::uint64_t id = 0, std::optional<std::string> path = std::nullopt) {
    const std::vector<Mount> mounts = parse_mountinfo(mountinfo);
    FilePlace place;
    place.device = device;
    place.path = std::move(path);
    for (const Mount& mount : mounts) {
      if (mount.id == id) place.mount = mount;
    }
    return traits_of_place(place, mounts, tree.path());
  }

  testing::TempDir tree;
};

TEST_F(Device, PartitionsShareTheLaneOfTheirDisk) {
  for (const char* number : {"8:0", "8:1", "8:2"}) {
    const DeviceTraits found = traits(number);
    EXPECT_EQ(found.lane, "8:0");
    EXPECT_EQ(found.name, "sda");
    EXPECT_TRUE(found.rotational);
    EXPECT_EQ(found.max_request, 1280 * kKiB);
    EXPECT_EQ(found.read_ahead, 128 * kKiB);
  }
}

TEST_F(Device, NvmeIsNotRotational) {
  const DeviceTraits found = traits("259:0");
  EXPECT_EQ(found.lane, "259:0");
  EXPECT_FALSE(found.rotational);
  EXPECT_EQ(found.read_ahead, 4 * kMiB);
}

TEST_F(Device, ReadsAheadByItsQueueWhereThereIsNoBdi) {
  std::filesystem::remove_all(tree / "class/bdi/8:0");
  EXPECT_EQ(traits("8:1").read_ahead, kKiB);
}

TEST_F(Device, SeesThroughBtrfsBySourceOrUuid) {
  const DeviceTraits found =
      traits("0:41", "43 27 0:39 /@models /srv rw - btrfs /dev/sda2 rw,subvol=/@models\n", 43);
  EXPECT_EQ(found.lane, "8:0");
  EXPECT_EQ(found.name, "sda");
  EXPECT_EQ(found.read_ahead, kMiB);  // of the bdi of the file system

  FilePlace passed;  // an fd from another mount namespace
  passed.device = "0:41";
  passed.fsid = "e0e0c7b7-6cd9-466d-ab1b-5d997e33a082";
  passed.mount = parse_mountinfo("1 0 0:39 / / rw - btrfs /dev/elsewhere rw\n").at(0);
  EXPECT_EQ(traits_of_place(passed, {}, tree.path()).lane, "8:0");
}

TEST_F(Device, FindsAMapperNameByItsKernelName) {
  const DeviceTraits found =
      traits("0:60", "50 1 0:60 / /m rw - bcachefs /dev/mapper/vg-models:/dev/sda1 rw\n", 50);
  EXPECT_EQ(found.lane, "253:0");
  EXPECT_EQ(found.name, "dm-0");
}

TEST_F(Device, SeesThroughAnOverlayToItsLowerFileSystem) {
  const std::string mountinfo =
      "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "2 1 259:0 / /var/lib/docker rw - xfs /dev/nvme0n1 rw\n"
      "3 1 0:42 / /merged rw - overlay overlay "
      "rw,lowerdir=/var/lib/docker/l1:/var/lib/docker/l2,upperdir=/var/lib/docker/u,workdir=/w\n";
  EXPECT_EQ(traits("0:42", mountinfo, 3).lane, "259:0");
}

TEST_F(Device, LooksForTheFileInTheLayersOfAnOverlay) {
  tree.write("upper/here.gguf", "x");
  tree.write("lower/there.gguf", "x");
  const std::string root = tree.path().string();
  const std::string mountinfo =
      "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "2 1 259:0 / " +
      root +
      "/lower rw - xfs /dev/nvme0n1 rw\n"
      "3 1 0:42 / /merged rw - overlay overlay rw,lowerdir=" +
      root + "/lower,upperdir=" + root + "/upper,workdir=/w\n";
  EXPECT_EQ(traits("0:42", mountinfo, 3, "/merged/here.gguf").lane, "8:0");
  EXPECT_EQ(traits("0:42", mountinfo, 3, "/merged/there.gguf").lane, "259:0");
}

TEST_F(Device, DoesNotFollowAnOverlayForEver) {
  const DeviceTraits itself =
      traits("0:42", "3 1 0:42 / / rw - overlay overlay rw,lowerdir=/a:/b\n", 3);
  EXPECT_EQ(itself.lane, "virtual:0:42");
  const DeviceTraits circle = traits("0:42",
                                     "3 1 0:42 / /x rw - overlay overlay rw,lowerdir=/y/a\n"
                                     "4 1 0:43 / /y rw - overlay overlay rw,lowerdir=/x/a\n",
                                     3);
  EXPECT_EQ(circle.lane.rfind("virtual:", 0), 0U) << circle.lane;
  EXPECT_EQ(traits("0:42", "3 1 0:42 / /x rw - overlay overlay rw,lowerdir=l/AB:l/CD\n", 3).lane,
            "virtual:0:42");
}

TEST_F(Device, NamesNetworksMemoryAndTheUnknown) {
  const DeviceTraits nfs = traits("0:52", "5 1 0:52 / /n rw - nfs4 nas:/models rw\n", 5);
  EXPECT_EQ(nfs.lane, "net:0:52");
  EXPECT_EQ(nfs.read_ahead, 15360 * kKiB);
  EXPECT_EQ(traits("0:53", "5 1 0:53 / /n rw - fuse.mergerfs pool rw\n", 5).lane, "net:0:53");
  EXPECT_EQ(traits("0:54", "5 1 0:54 / /n rw - tmpfs tmpfs rw\n", 5).lane, "mem");
  EXPECT_EQ(traits("0:55", "5 1 0:55 / /n rw - zfs tank/models rw\n", 5).lane, "virtual:0:55");
  EXPECT_EQ(traits("0:56").lane, "virtual:0:56");
  EXPECT_EQ(traits("0:56").read_ahead, 0U);
}

TEST_F(Device, TakesTheFileFromItsDescriptor) {
  const UniqueFd fd(::open((tree / "class/bdi/0:52/read_ahead_kb").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd);
  const std::string name = std::to_string(fd.get());
  tree.write("proc/self/fdinfo/" + name, "pos:\t0\nflags:\t0100000\nmnt_id:\t77\n");
  tree.write("proc/self/mountinfo", "77 1 9:9 / / rw - nfs4 nas:/x rw\n");
  const Result<DeviceTraits> found = device_traits(fd.get(), tree / "none", tree / "proc");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->lane.rfind("net:", 0), 0U) << found->lane;
  EXPECT_FALSE(device_traits(-1));
}

TEST_F(Device, SleepsWhenRuntimePowerManagementSaysSo) {
  DeviceTraits device = traits("8:0");
  EXPECT_FALSE(in_standby(device, tree.path()));
  tree.write("block/sda/device/power/runtime_status", "active\n");
  EXPECT_FALSE(in_standby(device, tree.path()));
  tree.write("block/sda/device/power/runtime_status", "suspended\n");
  EXPECT_TRUE(in_standby(device, tree.path()));
  EXPECT_FALSE(in_standby(DeviceTraits{}, tree.path()));
}

TEST(Standby, ReadsThePowerModeFromSenseData) {
  std::array<std::uint8_t, 32> sense{};
  sense[0] = 0x72;
  sense[7] = 14;
  sense[8] = 0x09;
  sense[9] = 0x0C;
  sense[13] = 0xFF;
  EXPECT_EQ(power_mode_of_sense(sense.data(), 22), 0xFF);
  sense[13] = 0x00;
  EXPECT_EQ(power_mode_of_sense(sense.data(), 22), 0x00);
  EXPECT_FALSE(power_mode_of_sense(sense.data(), 21));
  sense[8] = 0x00;
  EXPECT_FALSE(power_mode_of_sense(sense.data(), 22));
  sense[8] = 0x09;
  sense[0] = 0x70;  // fixed format: a bridge that does not know ATA pass-through
  EXPECT_FALSE(power_mode_of_sense(sense.data(), 22));
}

}  // namespace
}  // namespace andiron::os
