// SPDX-License-Identifier: MIT
#include "agent/api/target.hpp"

#include <gmock/gmock.h>

#include <string>

namespace andiron::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string why_not(std::string_view text) {
  const Result<Target> target = split_target(text);
  if (target) return "";
  EXPECT_EQ(target.error().errc(), Errc::bad_request);
  return target.error().message();
}

TEST(TargetTest, SplitsBeforeItDecodes) {
  const auto target = split_target("/v1/models/a%2Fb%3Fc/warm?since=10m&follow=1");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v1/models/a%2Fb%3Fc/warm");
  EXPECT_THAT(target->segments, ElementsAre("v1", "models", "a/b?c", "warm"));
  EXPECT_THAT(target->query, ElementsAre(Pair("follow", "1"), Pair("since", "10m")));
}

TEST(TargetTest, PlusIsASpaceInTheQueryOnly) {
  const auto target = split_target("/a+b?c=d+e%2B");
  ASSERT_TRUE(target);
  EXPECT_THAT(target->segments, ElementsAre("a+b"));
  EXPECT_THAT(target->query, ElementsAre(Pair("c", "d e+")));
}

TEST(TargetTest, KeepsEmptySegmentsAndDots) {
  ASSERT_TRUE(split_target("/"));
  EXPECT_THAT(split_target("/")->segments, IsEmpty());
  EXPECT_THAT(split_target("/v1//x/")->segments, ElementsAre("v1", "", "x", ""));
  EXPECT_THAT(split_target("/v1/%2e%2e/x")->segments, ElementsAre("v1", "..", "x"));
}

TEST(TargetTest, PassesBytesThatAreNoUtf8) {
  ASSERT_TRUE(split_target("/%ff%FE"));
  EXPECT_THAT(split_target("/%ff%FE")->segments, ElementsAre("\xff\xfe"));
}

TEST(TargetTest, TakesTheAbsoluteForm) {
  ASSERT_TRUE(split_target("http://localhost/v1/status?x=y"));
  EXPECT_THAT(split_target("http://localhost/v1/status?x=y")->segments,
              ElementsAre("v1", "status"));
  EXPECT_THAT(split_target("http://localhost")->segments, IsEmpty());
}

TEST(TargetTest, QueryWithoutValues) {
  const auto target = split_target("/e?follow&&since=");
  ASSERT_TRUE(target);
  EXPECT_THAT(target->query, ElementsAre(Pair("follow", ""), Pair("since", "")));
}

TEST(TargetTest, RefusesWhatIsBroken) {
  EXPECT_THAT(why_not("/a%0"), HasSubstr("cut-off"));
  EXPECT_THAT(why_not("/a%"), HasSubstr("cut-off"));
  EXPECT_THAT(why_not("/a%zz"), HasSubstr("hexadecimal"));
  EXPECT_THAT(why_not("/a%+1"), HasSubstr("hexadecimal"));
  EXPECT_THAT(why_not("/a%00b"), HasSubstr("NUL"));
  EXPECT_THAT(why_not("/a?b=%00"), HasSubstr("NUL"));
  EXPECT_THAT(why_not("*"), HasSubstr("'/'"));
  EXPECT_THAT(why_not(""), HasSubstr("'/'"));
  EXPECT_THAT(why_not("host:80"), HasSubstr("'/'"));
  EXPECT_THAT(why_not("/a#b"), HasSubstr("fragment"));
  EXPECT_THAT(why_not("/a?x=1&x=2"), HasSubstr("'x' given twice"));
  EXPECT_THAT(why_not("/a?=1"), HasSubstr("without a name"));
}

TEST(TargetTest, BoundsTheQuery) {
  std::string target = "/a?";
  for (int i = 0; i < 32; ++i)
    target += "k" + std::to_string(i) + "&";
  EXPECT_EQ(why_not(target), "");
  EXPECT_THAT(why_not(target + "one-more"), HasSubstr("too many"));
}

}  // namespace
}  // namespace andiron::api
