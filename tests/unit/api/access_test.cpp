// SPDX-License-Identifier: MIT
#include "agent/api/access.hpp"

#include <gtest/gtest.h>

namespace andiron::api {
namespace {

constexpr TokenState kEveryState[] = {TokenState::none_set, TokenState::missing, TokenState::wrong,
                                      TokenState::right};
constexpr const char* kWriting[] = {"POST", "DELETE", "PUT", "OPTIONS", "get", "BREW", ""};

TEST(Authorise, TheControlSocketMayDoEverything) {
  for (const TokenState token : kEveryState) {
    EXPECT_EQ(authorise(Door::control_socket, "GET", token), Verdict::allow);
    EXPECT_EQ(authorise(Door::control_socket, "POST", token), Verdict::allow);
  }
}

TEST(Authorise, TheTokenMayDoEverything) {
  for (const Door door : {Door::loopback, Door::network}) {
    EXPECT_EQ(authorise(door, "GET", TokenState::right), Verdict::allow);
    for (const char* method : kWriting)
      EXPECT_EQ(authorise(door, method, TokenState::right), Verdict::allow) << method;
  }
}

TEST(Authorise, LoopbackReadsWithoutOne) {
  for (const TokenState token : kEveryState) {
    EXPECT_EQ(authorise(Door::loopback, "GET", token), Verdict::allow);
    EXPECT_EQ(authorise(Door::loopback, "HEAD", token), Verdict::allow);
  }
}

TEST(Authorise, LoopbackDoesNotWriteWithoutOne) {
  for (const char* method : kWriting) {
    EXPECT_EQ(authorise(Door::loopback, method, TokenState::none_set), Verdict::forbid);
    EXPECT_EQ(authorise(Door::loopback, method, TokenState::missing), Verdict::ask_for_token);
    EXPECT_EQ(authorise(Door::loopback, method, TokenState::wrong), Verdict::ask_for_token);
  }
}

TEST(Authorise, TheNetworkGetsNothingWithoutOne) {
  for (const char* method : {"GET", "HEAD", "POST"}) {
    EXPECT_EQ(authorise(Door::network, method, TokenState::none_set), Verdict::forbid);
    EXPECT_EQ(authorise(Door::network, method, TokenState::missing), Verdict::ask_for_token);
    EXPECT_EQ(authorise(Door::network, method, TokenState::wrong), Verdict::ask_for_token);
  }
}

TEST(Hosts, LoopbackByNameOrAddress) {
  for (const char* host :
       {"localhost", "LocalHost", "localhost:9479", "127.0.0.1", "127.0.0.1:9479", "127.8.8.8:1",
        "[::1]", "[::1]:9479", "[::ffff:127.0.0.1]:80"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
}

TEST(Hosts, NothingElse) {
  for (const char* host : {"",
                           "evil.example",
                           "localhost.evil.example",
                           "127.0.0.1.evil.example",
                           "evil.example:9479",
                           "::1",
                           "[::1",
                           "[::1]x",
                           "[localhost]",
                           "[127.0.0.1]",
                           "localhost:",
                           "localhost:x",
                           "localhost:123456",
                           "localhost:80:80",
                           "127.1",
                           "10.0.0.1",
                           "[fe80::1]",
                           "0.0.0.0",
                           "user@localhost",
                           "localhost/",
                           ":9479",
                           "[]",
                           "["}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(Origins, MustBeTheHostThatIsAsked) {
  EXPECT_TRUE(is_same_origin("http://127.0.0.1:9479", "127.0.0.1:9479"));
  EXPECT_TRUE(is_same_origin("https://Box.lan", "box.lan"));
  for (const char* origin : {"http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8123",
                             "null", "", "127.0.0.1:9479", "file://127.0.0.1:9479"}) {
    EXPECT_FALSE(is_same_origin(origin, "127.0.0.1:9479")) << origin;
  }
  EXPECT_FALSE(is_same_origin("http://", ""));
}

TEST(Bearer, IsOneScheme) {
  EXPECT_EQ(bearer_of("Bearer abc"), "abc");
  EXPECT_EQ(bearer_of("bEARER   abc"), "abc");
  EXPECT_EQ(bearer_of("Bearer "), "");
  EXPECT_FALSE(bearer_of("Basic abc"));
  EXPECT_FALSE(bearer_of("Bearerabc"));
  EXPECT_FALSE(bearer_of("Bearer"));
  EXPECT_FALSE(bearer_of(""));
}

}  // namespace
}  // namespace andiron::api
