// SPDX-License-Identifier: MIT
#include "agent/api/tcp_gate.hpp"

#include <gmock/gmock.h>

#include <string>

namespace andiron::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSecret = "0123456789abcdef";

class TcpGateTest : public ::testing::Test {
 protected:
  void guard(Door door, bool token) {
    std::optional<BearerToken> secret;
    if (token) secret = *BearerToken::parse(kSecret);
    gate_.emplace(door, std::move(secret));
  }
  /// The status that a request is refused with, or 200.
  unsigned ask(const std::string& method, Claims claims = {.host = "localhost:9479"}) {
    ParsedRequest request;
    request.request.method = method;
    request.claims = std::move(claims);
    const auto refusal = gate_->refuse(peer_, request, now_);
    headers_.clear();
    body_ = refusal ? std::string(refusal->body.text()) : "";
    if (!refusal) return 200;
    for (const auto& [name, value] : refusal->headers)
      headers_ += name + ": " + value + "\n";
    EXPECT_THAT(body_ + headers_, Not(HasSubstr(kSecret.substr(0, 4))));
    return refusal->status;
  }
  static Claims with(const std::string& token, const std::string& host = "localhost") {
    return {.host = host, .authorization = "Bearer " + token};
  }

  std::optional<TcpGate> gate_;
  IpAddress peer_ = *IpAddress::parse("127.0.0.1");
  SteadyTime now_{std::chrono::hours(1)};
  std::string headers_;
  std::string body_;
};

TEST_F(TcpGateTest, WithoutATokenLoopbackReads) {
  guard(Door::loopback, false);
  EXPECT_EQ(ask("GET"), 200U);
  EXPECT_EQ(ask("HEAD"), 200U);
  EXPECT_EQ(ask("GET", with(kSecret)), 200U);
  for (const char* method : {"POST", "DELETE", "OPTIONS"}) {
    EXPECT_EQ(ask(method), 403U);
    EXPECT_THAT(body_, HasSubstr("\"permission_denied\""));
    EXPECT_EQ(headers_, "");
  }
  EXPECT_EQ(ask("POST", with(kSecret)), 403U);
}

TEST_F(TcpGateTest, AsksForTheToken) {
  guard(Door::loopback, true);
  EXPECT_EQ(ask("GET"), 200U);
  EXPECT_EQ(ask("GET", with("stale-0123456789")), 200U);  // reading asks for none
  EXPECT_EQ(ask("POST"), 401U);
  EXPECT_THAT(headers_, HasSubstr("WWW-Authenticate: Bearer realm=\"andiron\"\n"));
  EXPECT_THAT(body_, HasSubstr("\"unauthorized\""));
  EXPECT_EQ(ask("POST", with("0123456789abcdeF")), 401U);
  EXPECT_THAT(headers_, HasSubstr("error=\"invalid_token\""));
  EXPECT_EQ(ask("POST", {.host = "localhost", .authorization = "Basic " + kSecret}), 401U);
  EXPECT_EQ(ask("POST", with(kSecret)), 200U);
}

TEST_F(TcpGateTest, BeyondLoopbackNothingIsOpen) {
  guard(Door::network, true);
  peer_ = *IpAddress::parse("192.168.1.7");
  EXPECT_EQ(ask("GET"), 401U);
  EXPECT_EQ(ask("GET", with("wrong")), 401U);
  EXPECT_EQ(ask("GET", with(kSecret, "box.lan:9479")), 200U);
  EXPECT_EQ(ask("POST", with(kSecret, "")), 200U);
}

TEST_F(TcpGateTest, AStrangersNameIsNotThisHost) {
  guard(Door::loopback, true);
  EXPECT_EQ(ask("GET", {.host = "evil.example:9479"}), 403U);
  EXPECT_THAT(body_, HasSubstr("evil.example"));
  EXPECT_EQ(ask("GET", {.host = ""}), 403U);
  EXPECT_EQ(ask("GET", {.host = std::string(5000, 'e')}), 403U);
  EXPECT_LT(body_.size(), 400U);
  // No page knows the token, so whoever has it may call this machine by any name.
  EXPECT_EQ(ask("GET", with(kSecret, "box.lan")), 200U);
  EXPECT_EQ(ask("GET", with("0123456789abcdeF", "box.lan")), 401U);
}

TEST_F(TcpGateTest, PagesOfOtherSitesGetNothing) {
  guard(Door::loopback, true);
  Claims claims = with(kSecret, "127.0.0.1:9479");
  claims.origin = "http://evil.example";
  EXPECT_EQ(ask("GET", claims), 403U);
  EXPECT_EQ(ask("OPTIONS", claims), 403U);
  claims.origin = "null";
  EXPECT_EQ(ask("POST", claims), 403U);
  claims.origin = "http://127.0.0.1:9479";
  EXPECT_EQ(ask("POST", claims), 200U);
  EXPECT_EQ(ask("GET", {.host = "localhost", .for_other_site = true}), 403U);
  // Rebound: the page's own name, in both.
  EXPECT_EQ(ask("GET", {.host = "evil.example:9479", .origin = "http://evil.example:9479"}), 403U);
}

TEST_F(TcpGateTest, WhoGuessesHasToWait) {
  guard(Door::network, true);
  peer_ = *IpAddress::parse("192.168.1.7");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(ask("GET", with("wrong")), 401U);
  EXPECT_EQ(ask("GET", with("wrong")), 429U);
  EXPECT_THAT(headers_, HasSubstr("Retry-After: 60\n"));
  EXPECT_THAT(body_, HasSubstr("\"too_many_requests\""));
  EXPECT_EQ(ask("GET", with(kSecret)), 429U);  // or the waiting would tell right from wrong
  EXPECT_EQ(ask("GET"), 401U);
  peer_ = *IpAddress::parse("192.168.1.8");
  EXPECT_EQ(ask("GET", with(kSecret)), 200U);
  peer_ = *IpAddress::parse("192.168.1.7");
  now_ += std::chrono::seconds(60);
  EXPECT_EQ(ask("GET", with(kSecret)), 200U);
}

TEST_F(TcpGateTest, NobodyLocksOutTheOthersOfThisMachine) {
  for (const Door door : {Door::loopback, Door::network}) {
    guard(door, true);
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(ask("POST", with("wrong")), 401U);
    EXPECT_EQ(ask("POST", with("wrong")), 429U);
    EXPECT_EQ(ask("POST", with(kSecret)), 200U);
  }
}

TEST_F(TcpGateTest, AMissingTokenIsNoTry) {
  guard(Door::network, true);
  peer_ = *IpAddress::parse("192.168.1.7");
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(ask("GET"), 401U);
  EXPECT_EQ(ask("GET", with(kSecret)), 200U);
}

}  // namespace
}  // namespace andiron::api
