// SPDX-License-Identifier: MIT
#include "agent/api/json_body.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

namespace andiron::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string why_not(std::string_view text) {
  const auto body = JsonBody::parse(text);
  if (body) return "";
  EXPECT_EQ(body.error().errc(), Errc::bad_request);
  return body.error().message();
}

TEST(JsonBodyTest, NothingIsTheEmptyObject) {
  for (const char* text : {"", " \r\n", "{}"}) {
    const auto body = JsonBody::parse(text);
    ASSERT_TRUE(body) << text;
    EXPECT_TRUE(body->object().empty());
    EXPECT_EQ(*body->string("source"), std::nullopt);
    EXPECT_FALSE(body->required_string("source"));
  }
}

TEST(JsonBodyTest, GivesWhatIsThere) {
  const auto body =
      JsonBody::parse(R"({"source":"ollama:x","wait":true,"n":18446744073709551615,"z":null})");
  ASSERT_TRUE(body);
  EXPECT_EQ(*body->string("source"), "ollama:x");
  EXPECT_EQ(*body->required_string("source"), "ollama:x");
  EXPECT_EQ(*body->boolean("wait"), true);
  EXPECT_EQ(*body->unsigned_integer("n"), UINT64_MAX);
  EXPECT_EQ(*body->boolean("z"), std::nullopt);
  EXPECT_EQ(*body->unsigned_integer("absent"), std::nullopt);
}

TEST(JsonBodyTest, TypeErrorsNameTheKey) {
  const auto body = JsonBody::parse(R"({"s":1,"b":"true","n":-1,"f":1.5,"nul":"a\u0000b"})");
  ASSERT_TRUE(body);
  EXPECT_THAT(body->string("s").error().message(), HasSubstr("'s' must be a string"));
  EXPECT_THAT(body->required_string("s").error().message(), HasSubstr("'s' must be"));
  EXPECT_THAT(body->required_string("t").error().message(), HasSubstr("'t' is missing"));
  EXPECT_THAT(body->boolean("b").error().message(), HasSubstr("'b' must be true or false"));
  EXPECT_THAT(body->unsigned_integer("n").error().message(), HasSubstr("'n' must be a whole"));
  EXPECT_THAT(body->unsigned_integer("f").error().message(), HasSubstr("'f' must be a whole"));
  EXPECT_THAT(body->string("nul").error().message(), HasSubstr("NUL"));
}

TEST(JsonBodyTest, BoundsNumbers) {
  const auto body = JsonBody::parse(R"({"n":101})");
  ASSERT_TRUE(body);
  EXPECT_THAT(body->unsigned_integer("n", 100).error().message(), HasSubstr("'n' is past 100"));
  EXPECT_EQ(*body->unsigned_integer("n", 101), 101U);
}

TEST(JsonBodyTest, UnknownKeysNameTheNearest) {
  const auto body = JsonBody::parse(R"({"tire":"vram"})");
  ASSERT_TRUE(body);
  EXPECT_TRUE(body->only({"tire"}));
  const auto refused = body->only({"hold", "tier", "wait"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errc(), Errc::bad_request);
  EXPECT_THAT(refused.error().message(), HasSubstr("unknown key 'tire'; did you mean 'tier'?"));
  EXPECT_THAT(body->only({"a"}).error().message(), Not(HasSubstr("did you mean")));
  EXPECT_THAT(body->only({}).error().message(), HasSubstr("unknown key 'tire'"));
}

TEST(JsonBodyTest, LongKeysAreNotEchoedWhole) {
  const auto body = JsonBody::parse("{\"" + std::string(60'000, 'k') + "\":1}");
  ASSERT_TRUE(body);
  EXPECT_LT(body->only({"tier"}).error().message().size(), 200U);
}

TEST(JsonBodyTest, RefusesWhatIsNoObject) {
  EXPECT_THAT(why_not("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(why_not("\"x\""), HasSubstr("not a JSON object"));
  EXPECT_THAT(why_not("{\"a\":"), HasSubstr("not valid JSON"));
  EXPECT_THAT(why_not("{\"a\":1} x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(why_not("{\"a\":1e999}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(why_not("{\"a\":\"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(why_not(R"({"a":1,"b":2,"a":3})"), HasSubstr("'a' given twice"));
  EXPECT_THAT(why_not(R"({"":1,"":3})"), HasSubstr("given twice"));
  EXPECT_EQ(why_not(R"({"a":{"x":1},"b":{"x":2}})"), "");
}

TEST(JsonBodyTest, BoundsNesting) {
  const auto nested = [](std::size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(why_not(nested(16)), "");
  EXPECT_THAT(why_not(nested(17)), HasSubstr("too deeply"));
  EXPECT_THAT(why_not(std::string(60'000, '[')), HasSubstr("too deeply"));
  // Brackets inside a string, behind an escaped quote too, are no nesting.
  EXPECT_EQ(why_not("{\"a\":\"\\\"" + std::string(40, '[') + "\"}"), "");
}

TEST(DumpTest, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(dump({{"path", "/a/\xff"}}), "{\"path\":\"/a/\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace andiron::api
