// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "agent/config/compile.hpp"
#include "agent/config/raw_config.hpp"
#include "agent/config/toml_string.hpp"

namespace andiron::config {
namespace {

using ::testing::StartsWith;
using namespace std::string_literals;

/// "line:column: message", or "good".
std::string fault_of(std::string_view text) {
  const auto parsed = parse_toml(text);
  if (parsed) return "good";
  const RawFault& fault = parsed.error();
  return std::to_string(fault.at.line) + ":" + std::to_string(fault.at.column) + ": " +
         fault.message;
}

TEST(Syntax, WhatIsNotTomlIsOneErrorWithItsPlace) {
  // What follows the place is toml++'s own, and differs by version.
  EXPECT_THAT(fault_of("[agent]\ndry_run = \n"), StartsWith("2:11: not valid TOML"));
  EXPECT_THAT(fault_of("a = 1\na = 2\n"), StartsWith("2:5: not valid TOML"));
  EXPECT_THAT(fault_of("[a]\n[b]\n[a]\n"), StartsWith("3:1: not valid TOML"));
  EXPECT_THAT(fault_of("a = \"x\n"), StartsWith("1:7: not valid TOML"));
  EXPECT_EQ(compile("x = ", "f").errors.size(), 1u);
}

TEST(Syntax, WhatBreaksTheParsersAssertionsIsAnErrorToo) {
  EXPECT_THAT(fault_of("a = 1\n\n[*\n[b]\n"), StartsWith("3:"));
  EXPECT_THAT(fault_of("[*"), StartsWith("1:"));
}

TEST(Syntax, LineEndsAndMarks) {
  EXPECT_EQ(fault_of("[a]\r\nb = 1\r\n"), "good");
  EXPECT_EQ(fault_of("\xEF\xBB\xBF[a]\nb = 1\n"), "good");
  EXPECT_THAT(fault_of("[a]\r\nb = \r\n"), StartsWith("2:5: "));
  EXPECT_EQ(compile("\xEF\xBB\xBFx = 1\n", "f").errors.at(0).column, 1u);
  EXPECT_EQ(fault_of("\xFF\xFE[\0a\0"s), "1:1: is UTF-16; save it as UTF-8");
}

TEST(Syntax, BadBytes) {
  EXPECT_EQ(fault_of("a = 1\nb\0 = 2\n"s), "2:2: a NUL byte");
  EXPECT_EQ(fault_of("# \u00e9\xff\n"), "1:4: not valid UTF-8");
  EXPECT_EQ(fault_of("# \xed\xa0\x80\n"), "1:3: not valid UTF-8");
  EXPECT_EQ(fault_of("# \xc0\xaf\n"), "1:3: not valid UTF-8");
  EXPECT_EQ(fault_of("# \xf4\x90\x80\x80\n"), "1:3: not valid UTF-8");
  EXPECT_EQ(fault_of("# \xe2\x82"), "1:3: not valid UTF-8");
}

TEST(Syntax, CharactersOutsideOfAscii) {
  EXPECT_EQ(fault_of("a = \"\u00e9\" # \u00e9\n\"\u00e9\" = '\u00e9'\nb = '''\n\u00e9'''\n"),
            "good");
  EXPECT_EQ(fault_of("a = \u201cx\u201d\n"), "1:5: a curly quote; write a straight one");
  const std::string stray =
      "a character outside of ASCII that is neither in quotes nor in a comment";
  EXPECT_EQ(fault_of("a =\u00a01\n"), "1:4: " + stray);
  EXPECT_EQ(fault_of("a = '''x'''''\u00e9"), "1:14: " + stray);
  EXPECT_EQ(fault_of("a = \"\"\"x\"\"\"\u00e9"), "1:12: " + stray);
  EXPECT_EQ(fault_of("a = \"\\\\\u00e9\""), "good");
  EXPECT_EQ(fault_of("a = \"\\\u00e9\""), "1:7: a character outside of ASCII after \\");
  EXPECT_EQ(fault_of("a = \"\"\"\\\n \u00e9\"\"\""), "2:2: a character outside of ASCII after \\");
}

TEST(Syntax, DepthIsBounded) {
  const std::size_t many = 100'000;
  EXPECT_THAT(fault_of("a = " + std::string(many, '[')), StartsWith("1:"));
  std::string tables = "a = ";
  for (std::size_t i = 0; i < many; ++i)
    tables += "{b=";
  EXPECT_THAT(fault_of(tables), StartsWith("1:"));
  std::string key = "a";
  for (std::size_t i = 0; i < many; ++i)
    key += " . \"b.c\"";
  const std::string message = "a dotted key of more than 16 parts";
  EXPECT_THAT(fault_of(key + " = 1\n"), ::testing::EndsWith(message));
  EXPECT_THAT(fault_of("[" + key + "]\n"), ::testing::EndsWith(message));
  EXPECT_THAT(fault_of("x = \"\"\"\"\"\"\"\n" + key + " = 1\n"), StartsWith("2:"));
  EXPECT_EQ(fault_of("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p = 'a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r'\n"),
            "good");
}

TEST(Syntax, PlacesAreThoseOfTheText) {
  const auto parsed =
      parse_toml("# \u00e9\n[b]\n  \"\u00e9\" = 5\n[a.c]\nx.y = [ 1,\n 2]\n[[d]]\n");
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->size(), 3u);
  const RawEntry& b = parsed->at(0);  // in order of the text, not of the names
  EXPECT_EQ(b.key, "b");
  EXPECT_EQ(b.key_at, (Position{2, 2}));
  EXPECT_EQ(b.value.at, (Position{2, 1}));
  const RawEntry& e = std::get<RawTable>(b.value.data).at(0);
  EXPECT_EQ(e.key_at, (Position{3, 3}));
  EXPECT_EQ(e.value.at, (Position{3, 9}));
  const RawEntry& c = std::get<RawTable>(parsed->at(1).value.data).at(0);
  const RawEntry& x = std::get<RawTable>(c.value.data).at(0);
  EXPECT_EQ(x.key_at, (Position{5, 1}));
  EXPECT_EQ(x.value.at.line, 5u);
  const RawEntry& y = std::get<RawTable>(x.value.data).at(0);
  EXPECT_EQ(y.value.at, (Position{5, 7}));
  EXPECT_EQ(std::get<RawArray>(y.value.data).at(1).at, (Position{6, 2}));
  const RawEntry& d = parsed->at(2);
  EXPECT_EQ(std::get<RawArray>(d.value.data).at(0).at, (Position{7, 1}));
}

TEST(TomlString, GivesBackAnyText) {
  std::string all;
  for (int c = 1; c < 128; ++c)
    all += static_cast<char>(c);
  for (const std::string& text :
       {""s, "plain"s, all, "\u00e9\u20ac\U0001f525"s, "\"\"\"\\\n'''"s, "\\u0041"s, "a\\"s}) {
    const auto parsed = parse_toml("x = " + to_toml_string(text));
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(std::get<std::string>(parsed->at(0).value.data), text);
  }
  EXPECT_EQ(to_toml_string("a\"\\\n\x7f"), R"("a\"\\\n\u007F")");
  EXPECT_EQ(to_toml_string("\0"s), R"("\u0000")");
  EXPECT_EQ(to_toml_string("\xff\xe2\x82"), "\"\uFFFD\uFFFD\uFFFD\"");
}

}  // namespace
}  // namespace andiron::config
