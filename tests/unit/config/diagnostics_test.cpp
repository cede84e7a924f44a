// SPDX-License-Identifier: MIT
#include "agent/config/diagnostics.hpp"

#include <gtest/gtest.h>

namespace andiron::config {
namespace {

TEST(Diagnostics, KeepsTheFirstByPosition) {
  Diagnostics errors("f");
  for (std::uint32_t line = 5000; line > 0; --line)
    errors.add({line, 1}, "m");
  const std::vector<Diagnostic> taken = std::move(errors).take();
  ASSERT_EQ(taken.size(), kMaxDiagnostics + 1);
  EXPECT_EQ(taken.front().to_string(), "f:1:1: m");
  EXPECT_EQ(taken[kMaxDiagnostics - 1].line, kMaxDiagnostics);
  EXPECT_EQ(taken.back().to_string(), "f:101:1: ... and 4900 more");
}

TEST(Diagnostics, ExactlyTheMostHasNoMore) {
  Diagnostics errors("f");
  for (std::uint32_t line = 1; line <= kMaxDiagnostics; ++line)
    errors.add({line, 1}, "m");
  EXPECT_EQ(std::move(errors).take().back().message, "m");
}

TEST(Quoted, IsShortAndPrintable) {
  EXPECT_EQ(in_quotes("a\x1b[2J"), R"("a\u001B[2J")");
  EXPECT_EQ(in_quotes(std::string(64, 'x')), '"' + std::string(64, 'x') + '"');
  EXPECT_EQ(in_quotes(std::string(65, 'x')), '"' + std::string(64, 'x') + "\"...");
  // A character across the cut stays whole.
  EXPECT_EQ(in_quotes(std::string(63, 'x') + "\u00e9yyy"),
            '"' + std::string(63, 'x') + "\u00e9\"...");
}

TEST(QuotedList, ReadsLikeASentence) {
  EXPECT_EQ(one_of({"a"}), R"("a")");
  EXPECT_EQ(one_of({"a", "b", "c"}), R"("a", "b" or "c")");
}

}  // namespace
}  // namespace andiron::config
