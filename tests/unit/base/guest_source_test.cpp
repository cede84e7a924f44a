// SPDX-License-Identifier: MIT
#include "agent/base/guest_source.hpp"

#include <gtest/gtest.h>

namespace andiron {
namespace {

TEST(GuestSource, HasAGuestAndARest) {
  const auto path = split_guest_source("guest:101:/srv/m.gguf");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->guest, "101");
  EXPECT_EQ(path->rest, "/srv/m.gguf");
  const auto store = split_guest_source("guest:my-box.lan:ollama:llama3.2:3b");
  ASSERT_TRUE(store);
  EXPECT_EQ(store->guest, "my-box.lan");
  EXPECT_EQ(store->rest, "ollama:llama3.2:3b");
}

TEST(GuestSource, PathsBeginWithASlash) {
  EXPECT_TRUE(split_guest_path("guest:a:/"));
  EXPECT_FALSE(split_guest_path("guest:a:ollama:x"));
  EXPECT_FALSE(split_guest_path("/srv/guest:a:/x"));
  EXPECT_EQ(join_guest_source("a", "/x"), "guest:a:/x");
}

TEST(GuestSource, TheRestIsNone) {
  for (const char* text :
       {"", "guest", "guest:", "guest:a", "guest:a:", "guest::/x", "guest:../a:/x", "guest:a/b:/x",
        "guest:-a:/x", "guest:a b:/x", "Guest:a:/x", "/x"}) {
    EXPECT_FALSE(split_guest_source(text)) << text;
  }
  EXPECT_FALSE(split_guest_source("guest:" + std::string(129, 'a') + ":/x"));
}

}  // namespace
}  // namespace andiron
