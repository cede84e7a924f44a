// SPDX-License-Identifier: MIT
#include "agent/base/units.hpp"

#include <gtest/gtest.h>

#include "agent/base/clock.hpp"

namespace andiron {
namespace {

TEST(ParseBytes, TakesUnits) {
  EXPECT_EQ(parse_bytes("24GiB")->count, 24 * kGiB);
  EXPECT_EQ(parse_bytes("1.5 mib")->count, kMiB + kMiB / 2);
  EXPECT_EQ(parse_bytes("2GB")->count, 2'000'000'000u);
  EXPECT_EQ(parse_bytes("0")->count, 0u);
  EXPECT_EQ(parse_bytes("1048576")->count, kMiB);
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text : {"", "GiB", "-1GiB", "1.2.3MiB", "5 lightyears", "99999999999TiB", "1e3",
                           "0x10", "nan", "inf"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
}

TEST(ParseDuration, TakesUnitsAndSums) {
  using std::chrono::milliseconds;
  EXPECT_EQ(*parse_duration("30m"), milliseconds(1'800'000));
  EXPECT_EQ(*parse_duration("1h30m"), milliseconds(5'400'000));
  EXPECT_EQ(*parse_duration("1h 5s"), milliseconds(3'605'000));
  EXPECT_EQ(*parse_duration("250ms"), milliseconds(250));
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* text :
       {"", "30", "m", "-5s", "1.5h", "9999999999999999999s", "200000d", "5 m"}) {
    EXPECT_FALSE(parse_duration(text).has_value()) << text;
  }
}

TEST(Format, IsForPeople) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(2 * kGiB), "2.0 GiB");
  EXPECT_EQ(format_duration(std::chrono::milliseconds(200'000)), "3m 20s");
  EXPECT_EQ(format_time(WallTime(std::chrono::milliseconds(1'700'000'000'123))),
            "2023-11-14T22:13:20.123Z");
}

TEST(ParseTime, IsTheInverseOfFormatTime) {
  const WallTime time(std::chrono::milliseconds(1'700'000'000'123));
  EXPECT_EQ(*parse_time(format_time(time)), time);
  EXPECT_EQ(*parse_time("2023-11-14T22:13:20Z"), WallTime(std::chrono::seconds(1'700'000'000)));
  for (const char* text : {"0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "", "2023-11-14",
                           "2023-13-14T22:13:20Z", "2023-11-14T24:13:20Z", "2023-11-14T22:13:20",
                           "2023-11-14T22:13:20.Z", "2023-11-14 22:13:20Z"}) {
    EXPECT_FALSE(parse_time(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace andiron
