// SPDX-License-Identifier: MIT
#include "agent/tier/fill_shape.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "agent/base/units.hpp"

namespace andiron::tier {
namespace {

os::DeviceTraits device(const std::string& name, bool rotational, std::uint64_t read_ahead,
                        std::uint64_t max_request) {
  os::DeviceTraits traits;
  traits.name = name;
  traits.rotational = rotational;
  traits.read_ahead = read_ahead;
  traits.max_request = max_request;
  return traits;
}

FillShape window_of(std::uint64_t window) {
  FillShape shape;
  shape.window = window;
  return shape;
}

/// "missing" and "there" steps as text, so that a difference can be read.
std::string text_of(const std::vector<FillStep>& steps) {
  std::string text;
  for (const FillStep& step : steps) {
    text += (step.missing ? "m" : "t") + std::to_string(step.range.offset) + "+" +
            std::to_string(step.range.length) + (step.ask_ahead ? "a " : " ");
  }
  return text;
}

TEST(FillShape, SeveralReadersOnlyWhereSeeksCostNothing) {
  EXPECT_GT(shape_for(device("nvme0n1", false, 128 * kKiB, kMiB), FillMethod::automatic).threads,
            1U);
  EXPECT_EQ(1U, shape_for(device("sda", true, 128 * kKiB, kMiB), FillMethod::automatic).threads);
  // What virtio says of rotation is no evidence.
  EXPECT_GT(shape_for(device("vda", true, 8 * kMiB, kMiB), FillMethod::automatic).threads, 1U);
}

TEST(FillShape, AWillneedIsNoLargerThanTheDeviceTakes) {
  EXPECT_EQ(kMiB, shape_for(device("sda", false, 128 * kKiB, kMiB), FillMethod::automatic).chunk);
  EXPECT_EQ(4 * kMiB, shape_for(device("sda", false, 4 * kMiB, kMiB), FillMethod::automatic).chunk);
  EXPECT_EQ(128 * kKiB, shape_for(device("", false, 0, 0), FillMethod::automatic).chunk);
}

TEST(FillShape, AWindowIsNeverLargerThanAnOrderMayWait) {
  EXPECT_LE(shape_for(device("sda", true, 64 * kMiB, 64 * kMiB), FillMethod::automatic).window,
            16 * kMiB);
}

TEST(FillShape, AShortReadAheadHasToBeMadeUpFor) {
  const os::DeviceTraits slow = device("sda", false, 128 * kKiB, kMiB);
  EXPECT_TRUE(shape_for(slow, FillMethod::automatic).prove_huge);
  EXPECT_FALSE(shape_for(slow, FillMethod::populate).prove_huge);
  EXPECT_FALSE(shape_for(device("sda", false, kMiB, kMiB), FillMethod::automatic).prove_huge);
}

TEST(FillShape, OnlyHolesWithoutRoomForAHugeFolioAreAskedForAhead) {
  const FillShape shape = shape_for(device("sda", false, kMiB, kMiB), FillMethod::automatic);
  EXPECT_EQ(FillMethod::populate, shape.method);
  const std::vector<ByteRange> missing{{0, kMiB}, {16 * kMiB, 9 * kMiB}};
  EXPECT_EQ("m0+1048576a m16777216+8388608 m25165824+1048576 ",
            text_of(plan_steps(missing, 64 * kMiB, shape, false)));
  EXPECT_EQ("m0+1048576a m16777216+8388608a m25165824+1048576a ",
            text_of(plan_steps(missing, 64 * kMiB,
                               with_method(shape, FillMethod::readahead_populate), false)));
}

TEST(MergeClose, SwallowsShortGapsOnly) {
  EXPECT_EQ((std::vector<ByteRange>{}), merge_close({}, 5));
  EXPECT_EQ((std::vector<ByteRange>{{0, 16}, {21, 1}, {30, 5}}),
            merge_close({{0, 10}, {14, 2}, {21, 1}, {30, 5}}, 5));
  EXPECT_EQ((std::vector<ByteRange>{{3, 1}, {5, 1}}), merge_close({{3, 1}, {5, 1}}, 1));
}

TEST(PlanSteps, CutsAtMultiplesOfTheWindow) {
  EXPECT_EQ("m0+10 m10+10 m20+5 ", text_of(plan_steps({{0, 25}}, 25, window_of(10), false)));
  EXPECT_EQ("m7+3 m10+10 m20+2 ", text_of(plan_steps({{7, 15}}, 40, window_of(10), false)));
  EXPECT_EQ("", text_of(plan_steps({}, 40, window_of(10), false)));
}

TEST(PlanSteps, EverythingHasTheResidentPartsToo) {
  EXPECT_EQ("t0+7 m7+3 m10+2 t12+8 t20+5 ", text_of(plan_steps({{7, 5}}, 25, window_of(10), true)));
  EXPECT_EQ("t0+10 t10+1 ", text_of(plan_steps({}, 11, window_of(10), true)));
  EXPECT_EQ("m0+10 t10+1 ", text_of(plan_steps({{0, 10}}, 11, window_of(10), true)));
}

}  // namespace
}  // namespace andiron::tier
