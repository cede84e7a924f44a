// SPDX-License-Identifier: MIT
#include "agent/os/boot_id.hpp"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

TEST(BootId, IsWhatTheKernelSaysOrNothing) {
  testing::TempDir proc;
  EXPECT_EQ(read_boot_id(proc.path()), std::nullopt);
  const std::string id = "0c3f6a1e-7b1d-4c52-9d0a-5e8f3b2a1c4d";
  proc.write("sys/kernel/random/boot_id", id + "\n");
  EXPECT_EQ(read_boot_id(proc.path()), id);
  for (const std::string& strange : {std::string(), id + "0", std::string(36, '/')}) {
    proc.write("sys/kernel/random/boot_id", strange + "\n");
    EXPECT_EQ(read_boot_id(proc.path()), std::nullopt) << strange;
  }
  EXPECT_EQ(read_boot_id(), read_boot_id());
}

}  // namespace
}  // namespace andiron::os
