// SPDX-License-Identifier: MIT
#include "agent/cli/terminal_text.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace andiron::cli {
namespace {

TEST(EscapeText, LeavesWhatPeopleWrite) {
  EXPECT_EQ(escape_text("llama-3.2 (Q4_K) \\ ~"), "llama-3.2 (Q4_K) \\ ~");
  EXPECT_EQ(escape_text("Größe 模型 🦙"), "Größe 模型 🦙");
}

TEST(EscapeText, DisarmsControls) {
  EXPECT_EQ(escape_text("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(escape_text("\n\t\r\x7f"), "\\n\\t\\r\\x7f");
  EXPECT_EQ(escape_text(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(escape_text("\xc2\x9b"
                        "31m"),
            "\\x9b31m")
      << "C1 CSI, as UTF-8";
  EXPECT_EQ(escape_text("\x9b"
                        "31m"),
            "\\x9b31m")
      << "C1 CSI, as a byte";
}

TEST(EscapeText, DisarmsDirectionsAndTheInvisible) {
  EXPECT_EQ(escape_text("a\u202egpj"), "a\\u202egpj");
  EXPECT_EQ(escape_text("\u2066x\u2069"), "\\u2066x\\u2069");
  EXPECT_EQ(escape_text("a\u200bb"), "a\\u200bb");
}

TEST(EscapeText, NamesBytesThatAreNoUtf8) {
  EXPECT_EQ(escape_text("\xff"), "\\xff");
  EXPECT_EQ(escape_text("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(escape_text("\xe0\x80\xaf"), "\\xe0\\x80\\xaf") << "overlong";
  EXPECT_EQ(escape_text("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(escape_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past the last";
  EXPECT_EQ(escape_text("x\xe6\xa8"), "x\\xe6\\xa8") << "cut";
}

TEST(EscapeText, TwiceIsOnce) {
  const std::string once = escape_text("a\x1b\n\xff\u202e模");
  EXPECT_EQ(escape_text(once), once);
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("模型"), 4U);
  EXPECT_EQ(display_width("e\u0301"), 1U);
  EXPECT_EQ(display_width("🦙"), 2U);
}

TEST(Shorten, NeverGetsWider) {
  EXPECT_EQ(shorten("assistant", 9), "assistant");
  EXPECT_EQ(shorten("assistant", 8), "assis...");
  EXPECT_EQ(shorten("模型模型", 7), "模型...");
  EXPECT_EQ(shorten("模型模型", 6), "模...") << "half a character does not fit";
  for (std::size_t columns = 0; columns < 12; ++columns) {
    EXPECT_LE(display_width(shorten("模a型b模c型", columns)), columns);
  }
}

TEST(RenderTable, LinesUp) {
  EXPECT_EQ(render_table({{"NAME", "SIZE"}, {"a", "10 B"}, {"模型x", "1.9 GiB"}},
                         {Align::left, Align::right}),
            "NAME      SIZE\n"
            "a         10 B\n"
            "模型x  1.9 GiB\n");
}

TEST(RenderTable, LeavesNoBlanksBehind) {
  EXPECT_EQ(render_table({{"A", "B"}, {"aaa", ""}}, {Align::left, Align::left}), "A    B\naaa\n");
}

TEST(FormatRate, UsesPowersOfThousand) {
  EXPECT_EQ(format_rate(0), "0 B/s");
  EXPECT_EQ(format_rate(999), "999 B/s");
  EXPECT_EQ(format_rate(999.9), "1.0 kB/s");
  EXPECT_EQ(format_rate(1.6e9), "1.6 GB/s");
  EXPECT_EQ(format_rate(250e6), "250 MB/s");
  EXPECT_EQ(format_rate(9.96e6), "10 MB/s");
}

class LocalTime : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC-2", 1);  // POSIX signs: two hours east
    ::tzset();
  }
  const WallTime now_ = std::chrono::system_clock::from_time_t(1795946400);  // 2026-11-29 10:00 UTC
};

TEST_F(LocalTime, SaysTheDayOnlyWhenItIsAnother) {
  EXPECT_EQ(format_local_time("2026-11-29T10:00:03Z", now_), "12:00:03");
  EXPECT_EQ(format_local_time("2026-11-29T10:00:03.123Z", now_), "12:00:03");
  EXPECT_EQ(format_local_time("2026-11-28T10:00:03Z", now_), "2026-11-28 12:00:03");
  EXPECT_EQ(format_local_time("2026-11-28T23:30:00Z", now_), "01:30:00") << "today, here";
}

TEST_F(LocalTime, ShowsWhatItDoesNotUnderstand) {
  EXPECT_EQ(format_local_time("yesterday\x1b", now_), "yesterday\\x1b");
  EXPECT_EQ(format_local_time("", now_), "");
  EXPECT_EQ(format_local_time("2026-11-29T10:00:03+01:00", now_), "2026-11-29T10:00:03+01:00");
}

}  // namespace
}  // namespace andiron::cli
