// SPDX-License-Identifier: MIT
#include "agent/cli/progress.hpp"

#include <gtest/gtest.h>

#include "agent/base/units.hpp"
#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

using namespace std::chrono_literals;

const Progress kHalf{"assistant", 1 * kGiB, 2 * kGiB, 512.0 * kMiB};

TEST(RenderProgress, SaysAllWhereThereIsRoom) {
  EXPECT_EQ(render_progress(kHalf, 120),
            "assistant  [###################-------------------]   50 %  1.0 GiB of 2.0 GiB  "
            "537 MB/s  2 s left");
}

TEST(RenderProgress, LeavesOutTheLeastUsefulFirst) {
  EXPECT_EQ(render_progress(kHalf, 70),
            "assistant  [####-----]   50 %  1.0 GiB of 2.0 GiB  537 MB/s  2 s left");
  EXPECT_EQ(render_progress(kHalf, 66),
            "assistant  [#######--------]   50 %  1.0 GiB of 2.0 GiB  537 MB/s");
  EXPECT_EQ(render_progress(kHalf, 50), "assistant  [####-----]   50 %  1.0 GiB of 2.0 GiB");
  EXPECT_EQ(render_progress(kHalf, 40), "assistant  [#########----------]   50 %");
  EXPECT_EQ(render_progress(kHalf, 20), "assistant   50 %");
}

TEST(RenderProgress, NeverReachesTheLastColumn) {
  const Progress wide{"模型模型模型模型模型模型", 3 * kGiB, 7 * kGiB, 1e9};
  for (std::size_t columns = 0; columns <= 200; ++columns) {
    EXPECT_LE(display_width(render_progress(kHalf, columns)), columns == 0 ? 0 : columns - 1);
    EXPECT_LE(display_width(render_progress(wide, columns)), columns == 0 ? 0 : columns - 1);
  }
}

TEST(RenderProgress, KeepsALongNameFromPushingOutTheRest) {
  const Progress p{std::string(300, 'x'), 1 * kGiB, 2 * kGiB, 0};
  EXPECT_NE(render_progress(p, 80).find("50 %"), std::string::npos);
  EXPECT_NE(render_progress(p, 80).find("xxx..."), std::string::npos);
}

TEST(RenderProgress, HoldsNoneOfTheEdgesAgainstAnybody) {
  EXPECT_EQ(render_progress({"m", 0, 0, 0}, 80), "m  waiting");
  EXPECT_NE(render_progress({"m", 9 * kGiB, 1 * kGiB, 1}, 80).find("100 %"), std::string::npos)
      << "a file that grew";
  EXPECT_NE(render_progress({"m", kGiB - 1, kGiB, 1e9}, 80).find(" 99 %"), std::string::npos)
      << "100 % is the end and not before";
  EXPECT_EQ(render_progress({"m", 1, UINT64_MAX, 1}, 120).find("left"), std::string::npos)
      << "no forecast beyond a day";
}

TEST(RateMeter, LooksAtTheLastSecondsOnly) {
  RateMeter meter;
  SteadyTime now{};
  EXPECT_EQ(meter.bytes_per_second(), 0);
  meter.add(now, 0);
  EXPECT_EQ(meter.bytes_per_second(), 0);
  for (int i = 1; i <= 100; ++i)
    meter.add(now += 100ms, static_cast<std::uint64_t>(i) * 100'000'000);
  EXPECT_NEAR(meter.bytes_per_second(), 1e9, 1e6);
  std::uint64_t done = 10'000'000'000;
  for (int i = 0; i < 40; ++i)
    meter.add(now += 100ms, done += 1'000'000);
  EXPECT_NEAR(meter.bytes_per_second(), 1e7, 1e5) << "a device that became slow shows";
}

TEST(RateMeter, StartsOverWithAJobThatDoes) {
  RateMeter meter;
  SteadyTime now{};
  meter.add(now, 1000);
  meter.add(now += 1s, 2000);
  meter.add(now += 1s, 0);
  EXPECT_EQ(meter.bytes_per_second(), 0);
}

}  // namespace
}  // namespace andiron::cli
