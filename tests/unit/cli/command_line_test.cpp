// SPDX-License-Identifier: MIT
#include "agent/cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/cli/client.hpp"
#include "agent/cli/verbs.hpp"

namespace andiron::cli {
namespace {

using ::testing::HasSubstr;

TEST(CommandLine, GlobalOptionsStandAnywhere) {
  using Line = std::vector<std::string>;
  for (const Line& line :
       {Line{"--json", "--socket", "/s", "status"}, Line{"status", "--json", "--socket=/s"},
        Line{"--socket", "/s", "warm", "assistant", "--json"},
        Line{"warm", "--json", "assistant", "--socket", "/s"},
        Line{"models", "--json", "--socket", "/s"}}) {
    const Invocation invocation = parse_command_line(line);
    EXPECT_TRUE(invocation.verb) << ::testing::PrintToString(line) << invocation.text;
    EXPECT_TRUE(invocation.options.json);
    EXPECT_EQ(invocation.options.socket, "/s");
  }
}

TEST(CommandLine, WrongUsageIsTwo) {
  using Line = std::vector<std::string>;
  for (const Line& line : {Line{},
                           Line{"frobnicate"},
                           Line{"status", "extra"},
                           Line{"warm"},
                           Line{"warm", "a", "b"},
                           Line{"warm", "a", "--tier", "disk"},
                           Line{"warm", "a", "--hold", "tight"},
                           Line{"warm", "a", "--timeout", "30"},
                           Line{"warm", "a", "--wait", "--no-wait"},
                           Line{"warm", "a", "--no-wait", "--strict"},
                           Line{"warm", "a", "--no-wait", "--timeout", "1s"},
                           Line{"warm", "a", "--boot"},
                           Line{"warm", "--boot", "--no-wait"},
                           Line{"warm", "--boot", "--hold", "locked"},
                           Line{"warm", "--boot", "--tier", "vram"},
                           Line{"--socket"},
                           Line{"jobs", "--cancel", "x"},
                           Line{"jobs", "--cancel", "-1"},
                           Line{"drop"},
                           Line{"drop", "a", "--all"},
                           Line{"status", "--nonsense"}}) {
    const Invocation invocation = parse_command_line(line);
    EXPECT_FALSE(invocation.verb) << ::testing::PrintToString(line);
    EXPECT_EQ(invocation.status, ExitStatus::usage) << ::testing::PrintToString(line);
    EXPECT_FALSE(invocation.text.empty());
  }
}

TEST(CommandLine, RightUsageIsAVerb) {
  using Line = std::vector<std::string>;
  for (const Line& line :
       {Line{"warm", "status"}, Line{"warm", "a", "--tier", "pinned-ram", "--hold", "protected"},
        Line{"warm", "a", "--hold", "auto", "--strict", "--timeout", "1m30s"},
        Line{"warm", "--", "-odd"}, Line{"warm", "--boot", "--strict", "--timeout", "5m"},
        Line{"events", "--since", "1h", "-f"},
        Line{"resolve", "a", "--also", "b", "--also", "c", "--tensors"},
        Line{"jobs", "--cancel", "7"}, Line{"drop", "a", "--keep-pages"}, Line{"drop", "--all"},
        Line{"reload"}, Line{"plan"}, Line{"doctor"}, Line{"explain", "a"}}) {
    EXPECT_TRUE(parse_command_line(line).verb) << ::testing::PrintToString(line);
  }
}

TEST(CommandLine, HelpAndVersion) {
  const Invocation help = parse_command_line({"--help"});
  EXPECT_FALSE(help.verb);
  EXPECT_EQ(help.status, ExitStatus::done);
  EXPECT_THAT(help.text, HasSubstr("Examples:"));
  EXPECT_THAT(parse_command_line({"warm", "--help"}).text, HasSubstr("--strict"));
  EXPECT_THAT(parse_command_line({"--version"}).text, ::testing::StartsWith("andironctl "));
}

TEST(CommandLine, UsageErrorsAreJsonWhereJsonIsWanted) {
  EXPECT_THAT(parse_command_line({"warm", "--json"}).text,
              ::testing::StartsWith(R"({"error":{"code":"bad_request")"));
}

TEST(Sources, AreToldFromNames) {
  EXPECT_TRUE(looks_like_source("ollama:llama3.2:3b"));
  EXPECT_TRUE(looks_like_source("hf:org/name"));
  EXPECT_TRUE(looks_like_source("./x"));
  EXPECT_TRUE(looks_like_source("x.gguf"));
  EXPECT_TRUE(looks_like_source("model.safetensors.index.json"));
  EXPECT_FALSE(looks_like_source("assistant"));
  EXPECT_FALSE(looks_like_source("llama3.2:3b"));
}

TEST(Sources, BecomeAbsolute) {
  EXPECT_EQ(absolute_source("/a/../b"), "/a/../b");
  EXPECT_EQ(absolute_source("hf:org/name"), "hf:org/name");
  const std::string absolute = absolute_source("x/../y.gguf");
  EXPECT_EQ(absolute.front(), '/');
  EXPECT_THAT(absolute, ::testing::EndsWith("/x/../y.gguf"));
}

TEST(EncodeSegment, CannotLeaveItsPlace) {
  EXPECT_EQ(encode_segment("assistant-1.0_~"), "assistant-1.0_~");
  EXPECT_EQ(encode_segment("/a b?c#d%"), "%2Fa%20b%3Fc%23d%25");
  EXPECT_EQ(encode_segment("\r\n\xff"), "%0D%0A%FF");
  EXPECT_EQ(encode_segment(".."), "%2E%2E");
  EXPECT_EQ(encode_segment("."), "%2E");
  EXPECT_EQ(encode_segment("..."), "...");
}

}  // namespace
}  // namespace andiron::cli
