// SPDX-License-Identifier: MIT
#include "agent/os/text_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.hpp"

namespace andiron::os {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TextFile, ReadsAFileThatSaysNothingOfItsSize) {
  const Result<std::string> text = read_text("/proc/self/status");
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_NE(text->find("VmRSS"), std::string::npos);
}

TEST(TextFile, RefusesWhatIsPastItsBound) {
  const testing::TempDir dir;
  const std::string path = dir.write("big", std::string(100'000, 'x'));
  ASSERT_FALSE(read_text(path, 99'999));
  EXPECT_EQ(read_text(path, 99'999).error().errc(), Errc::too_large);
  EXPECT_TRUE(read_text(path, 100'000));
}

TEST(TextFile, GivesErrnoOfAMissingFile) {
  ASSERT_FALSE(read_text("/nowhere/at/all"));
  EXPECT_EQ(read_text("/nowhere/at/all").error().code.value(), ENOENT);
  EXPECT_FALSE(read_word("/nowhere/at/all"));
}

TEST(TextFile, TakesNumbersWholeOrNotAtAll) {
  EXPECT_EQ(parse_number(" 42\n"), 42U);
  EXPECT_EQ(parse_number("7f", 16), 0x7fU);
  EXPECT_EQ(parse_number("18446744073709551615"), ~std::uint64_t{0});
  for (const char* bad : {"", "max", "-1", "4 2", "42k", "18446744073709551616", "0x10"}) {
    EXPECT_FALSE(parse_number(bad)) << bad;
  }
}

TEST(TextFile, SplitsAndTrims) {
  EXPECT_THAT(split("a::b", ':'), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ':'), ElementsAre(""));
  EXPECT_THAT(fields("  a \t b\n"), ElementsAre("a", "b"));
  EXPECT_THAT(fields(" \n"), IsEmpty());
  EXPECT_EQ(trim("\t a b \n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

}  // namespace
}  // namespace andiron::os
