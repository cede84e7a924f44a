// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "agent/base/nearest_name.hpp"

namespace andiron::config {
namespace {

constexpr std::array<std::string_view, 5> kNames{"name", "source", "tier", "keep_alive", "preload"};

std::string near(std::string_view name) {
  return std::string(nearest_name(name, kNames).value_or("none"));
}

TEST(NearestName, FindsMisspellings) {
  EXPECT_EQ(near("nmae"), "name");
  EXPECT_EQ(near("teir"), "tier");
  EXPECT_EQ(near("sorce"), "source");
  EXPECT_EQ(near("Keep-Alive"), "keep_alive");
  EXPECT_EQ(near("keepalive"), "keep_alive");
  EXPECT_EQ(near("preloads"), "preload");
}

TEST(NearestName, DoesNotGuessWildly) {
  for (const std::string& name : {std::string(), std::string("x"), std::string("budget"),
                                  std::string("mode"), std::string(100'000, 'n')}) {
    EXPECT_EQ(near(name), "none") << name.substr(0, 20);
  }
}

TEST(NearestName, TheNearerWins) {
  constexpr std::array<std::string_view, 3> kClose{"cart", "carts", "cars"};
  EXPECT_EQ(nearest_name("cartss", kClose), "carts");
  EXPECT_EQ(nearest_name("car", kClose), "cart");
}

}  // namespace
}  // namespace andiron::config
