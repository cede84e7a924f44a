// SPDX-License-Identifier: MIT
#include "agent/base/ip_address.hpp"

#include <gtest/gtest.h>

#include <string>

namespace andiron {
namespace {

IpAddress address(const std::string& text) {
  const auto found = IpAddress::parse(text);
  EXPECT_TRUE(found) << text;
  return found.value_or(IpAddress());
}

TEST(IpAddress, ReadsAndPrints) {
  for (const char* text :
       {"0.0.0.0", "127.0.0.1", "10.20.30.40", "::", "::1", "fe80::1", "2001:db8::7"})
    EXPECT_EQ(address(text).to_string(), text);
  EXPECT_EQ(address("2001:DB8:0::7").to_string(), "2001:db8::7");
}

TEST(IpAddress, IsNumericOrNothing) {
  for (const std::string& text :
       {std::string("localhost"), std::string("127.1"), std::string("[::1]"), std::string("::1%lo"),
        std::string(""), std::string(" 1.2.3.4"), std::string("1.2.3.4\0", 8),
        std::string(5000, '1')}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(IpAddress, KnowsLoopback) {
  for (const char* text : {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(address(text).is_loopback()) << text;
  for (const char* text : {"126.0.0.1", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1", "fe80::1"})
    EXPECT_FALSE(address(text).is_loopback()) << text;
}

TEST(IpAddress, AMappedAddressIsTheIpv4One) {
  EXPECT_EQ(address("::ffff:10.0.0.1"), address("10.0.0.1"));
  EXPECT_TRUE(address("::ffff:10.0.0.1").is_v4());
  EXPECT_FALSE(address("::10.0.0.1").is_v4());
}

TEST(IpAddress, ANetworkIsOneHousehold) {
  EXPECT_EQ(address("2001:db8::1").network(), address("2001:db8::ffff:1").network());
  EXPECT_NE(address("2001:db8::1").network(), address("2001:db8:0:1::1").network());
  EXPECT_NE(address("10.0.0.1").network(), address("10.0.0.2").network());
}

TEST(Endpoint, GoesToTheKernelAndBack) {
  for (const char* text : {"192.168.1.2", "2001:db8::7"}) {
    const Endpoint endpoint{address(text), 9479};
    sockaddr_storage stored{};
    EXPECT_GT(endpoint.store(stored), 0u);
    EXPECT_EQ(IpAddress::of(stored), endpoint.address);
  }
  EXPECT_EQ((Endpoint{address("::1"), 80}.to_string()), "[::1]:80");
  EXPECT_EQ((Endpoint{address("127.0.0.1"), 9479}.to_string()), "127.0.0.1:9479");
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  EXPECT_FALSE(IpAddress::of(other));
}

}  // namespace
}  // namespace andiron
