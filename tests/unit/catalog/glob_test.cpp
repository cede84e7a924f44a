// SPDX-License-Identifier: MIT
#include "agent/catalog/glob.hpp"

#include <gtest/gtest.h>

#include <string>

namespace andiron::catalog {
namespace {

TEST(Glob, Matches) {
  EXPECT_TRUE(glob_match("*.gguf", "a.gguf"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a?c*", "abcdef"));
  EXPECT_TRUE(glob_match("*a*b*", "xxaxxbxx"));
  EXPECT_TRUE(glob_match("model-[0-9]*", "model-7b"));
  EXPECT_TRUE(glob_match("[!a-c]x", "dx"));
  EXPECT_TRUE(glob_match("[]]", "]"));
  EXPECT_TRUE(glob_match("\\*", "*"));
  EXPECT_TRUE(glob_match("[", "["));
  EXPECT_TRUE(glob_match(".*", ".hidden"));
}

TEST(Glob, DoesNotMatch) {
  EXPECT_FALSE(glob_match("*.gguf", "a.ggu"));
  EXPECT_FALSE(glob_match("*.gguf", "a.gguf2"));
  EXPECT_FALSE(glob_match("a?c", "ac"));
  EXPECT_FALSE(glob_match("[!a-c]x", "bx"));
  EXPECT_FALSE(glob_match("\\*", "a"));
  EXPECT_FALSE(glob_match("*", ".hidden"));
  EXPECT_FALSE(glob_match("", "a"));
}

TEST(Glob, TakesNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 100; ++i)
    pattern += "*a";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(255, 'a')));
}

}  // namespace
}  // namespace andiron::catalog
