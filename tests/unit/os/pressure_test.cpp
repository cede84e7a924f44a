// SPDX-License-Identifier: MIT
#include "agent/os/pressure.hpp"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

TEST(Pressure, ReadsBothLines) {
  const testing::TempDir proc;
  proc.write("pressure/memory",
             "some avg10=1.25 avg60=0.50 avg300=0.01 total=123456\n"
             "full avg10=0.75 avg60=0.00 avg300=100.00 total=65\n");
  const Result<Pressure> pressure = read_pressure("memory", proc.path());
  ASSERT_TRUE(pressure) << pressure.error().message();
  EXPECT_DOUBLE_EQ(pressure->some.avg10, 1.25);
  EXPECT_DOUBLE_EQ(pressure->some.avg60, 0.5);
  EXPECT_DOUBLE_EQ(pressure->some.avg300, 0.01);
  EXPECT_EQ(pressure->some.total_us, 123456U);
  EXPECT_DOUBLE_EQ(pressure->full.avg10, 0.75);
  EXPECT_DOUBLE_EQ(pressure->full.avg300, 100);
  EXPECT_EQ(pressure->full.total_us, 65U);
}

TEST(Pressure, IsUnavailableWhereTheKernelHasNone) {
  const testing::TempDir proc;
  const Result<Pressure> pressure = read_pressure("memory", proc.path());
  ASSERT_FALSE(pressure);
  EXPECT_EQ(pressure.error().errc(), Errc::unavailable);
}

TEST(Pressure, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", "some avg10=x total=1\n",
        "some avg10=1.0 total=-1\n", "some avg10\n", "some avg10=1.00\n"}) {
    const testing::TempDir proc;
    proc.write("pressure/io", text);
    const Result<Pressure> pressure = read_pressure("io", proc.path());
    ASSERT_FALSE(pressure) << text;
    EXPECT_EQ(pressure.error().errc(), Errc::bad_format) << text;
  }
}

}  // namespace
}  // namespace andiron::os
