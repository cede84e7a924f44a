// SPDX-License-Identifier: MIT
#include "agent/api/bearer_token.hpp"

#include <gmock/gmock.h>

#include <string>

namespace andiron::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSecret = "correct-horse.battery_staple~1";

BearerToken token(const std::string& text) {
  auto made = BearerToken::parse(text);
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

TEST(BearerToken, MatchesItselfAlone) {
  const BearerToken secret = token(kSecret);
  EXPECT_TRUE(secret.matches(kSecret));
  const std::string text = kSecret;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = 'X';
    EXPECT_FALSE(secret.matches(other)) << i;
    EXPECT_FALSE(secret.matches(text.substr(0, i))) << i;
  }
  EXPECT_FALSE(secret.matches(text + "x"));
  EXPECT_FALSE(secret.matches(text + std::string(1, '\0')));
  EXPECT_FALSE(secret.matches(text + std::string(10'000, 'x')));
  EXPECT_FALSE(secret.matches(""));
}

TEST(BearerToken, ComparesTheLongestToo) {
  const std::string text(BearerToken::kMaxSize, 'a');
  EXPECT_TRUE(token(text).matches(text));
  EXPECT_FALSE(token(text).matches(text + "a"));
  EXPECT_FALSE(token(text).matches(text.substr(1)));
}

TEST(BearerToken, WhiteSpaceAroundItIsNone) {
  EXPECT_TRUE(token(std::string(" \t") + kSecret + "\r\n\n").matches(kSecret));
  EXPECT_EQ(token(std::string(kSecret) + "\n"), token(kSecret));
  EXPECT_FALSE(token(std::string(kSecret) + "2") == token(kSecret));
}

TEST(BearerToken, RefusesWhatIsNone) {
  const struct {
    std::string text;
    const char* why;
  } cases[] = {
      {"", "it is empty"},
      {" \n", "it is empty"},
      {"short-secret-15", "15 characters, and needs 16 to 512"},
      {std::string(513, 'a'), "513 characters, and may have 512"},
      {"correct horse battery staple", "one word"},
      {"correct-horse\nbattery-staple", "one word"},
      {"\"correct-horse-battery\"", "one word"},
      {std::string("correct-horse-battery\0x", 23), "one word"},
  };
  for (const auto& [text, why] : cases) {
    const auto made = BearerToken::parse(text);
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().errc(), Errc::bad_config);
    EXPECT_THAT(made.error().message(), HasSubstr(why));
    EXPECT_THAT(made.error().message(), Not(HasSubstr("horse")));
    EXPECT_THAT(made.error().message(), Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace andiron::api
