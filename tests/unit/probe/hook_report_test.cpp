// SPDX-License-Identifier: MIT
#include "agent/probe/hook_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace andiron::probe {
namespace {

using namespace std::chrono_literals;
using Kind = ContainerEvent::Kind;

constexpr WallTime kNow{1'800'000'000s};
const std::string kId(64, 'a');

TEST(HookReport, TakesTheStateThatARuntimeGives) {
  const auto report = parse_hook_report(
      R"({"ociVersion":"1.0.2","id":")" + kId +
          R"(","status":"running","pid":4422,"bundle":"/var/lib/b/userdata","annotations":)"
          R"({"io.container.manager":"libpod","io.kubernetes.container.name":"ollama"},"new":[1]})",
      kNow);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->event, (ContainerEvent{"podman", kId, "ollama", Kind::started, 4422, kNow}));
  EXPECT_EQ(report->bundle, "/var/lib/b/userdata");
}

TEST(HookReport, TakesWhatPeopleSend) {
  const auto report =
      parse_hook_report(R"({"name":"101","status":"stopped","runtime":"lxc","pid":0})", kNow);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->event, (ContainerEvent{"lxc", "", "101", Kind::stopped, std::nullopt, kNow}));
}

TEST(HookReport, TheNameThatIsGivenGoesBeforeAnnotations) {
  const auto name = [](const std::string& annotations, const std::string& more = "") {
    return parse_hook_report(R"({"id":"a","status":"created")" + more + R"(,"annotations":{)" +
                                 annotations + "}}",
                             kNow)
        ->event.name;
  };
  EXPECT_EQ(name(R"("nerdctl/name":"n","io.kubernetes.cri-o.ContainerName":"c")"), "c");
  EXPECT_EQ(name(R"("io.kubernetes.cri-o.ContainerName":"c","nerdctl/name":"n")"), "c");
  EXPECT_EQ(name(R"("nerdctl/name":"n")", R"(,"name":"own")"), "own");
  EXPECT_EQ(name(R"("nerdctl/name":"a b")"), "");
  EXPECT_EQ(name(R"("nerdctl/name":7,"x":{"nerdctl/name":"n"})"), "");
}

TEST(HookReport, HostileReportsAreRefused) {
  for (const std::string& text :
       {std::string(""), std::string("7"), std::string("[]"), std::string("{"),
        std::string("\xff\xfe"), std::string("{}"), std::string(R"({"id":"a"})"),
        std::string(R"({"id":"a","status":"paused"})"), std::string(R"({"status":"running"})"),
        std::string(R"({"id":"","status":"running"})"),
        std::string(R"({"id":"../../etc/passwd","status":"running"})"),
        std::string(R"({"id":"a\u0000b","status":"running"})"),
        std::string(R"({"id":7,"status":"running"})"),
        R"({"name":")" + std::string(129, 'n') + R"(","status":"running"})",
        R"({"id":"a","status":"running","x":)" + std::string(1000, '[')}) {
    const auto report = parse_hook_report(text, kNow);
    ASSERT_FALSE(report) << text.substr(0, 60);
    EXPECT_EQ(report.error().errc(), Errc::bad_request) << text.substr(0, 60);
  }
  const std::string long_one =
      R"({"id":"a","status":"running","x":")" + std::string(kMaxHookReport, 'x') + "\"}";
  EXPECT_EQ(parse_hook_report(long_one, kNow).error().errc(), Errc::too_large);
}

TEST(HookReport, WhatIsOddIsLeftOut) {
  const auto report = parse_hook_report(
      R"({"id":"a","status":"running","pid":99999999999,"bundle":"relative","annotations":[]})",
      kNow);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->event.pid, std::nullopt);
  EXPECT_EQ(report->bundle, "");
  EXPECT_EQ(parse_hook_report(R"({"id":"a","status":"running","pid":-3})", kNow)->event.pid,
            std::nullopt);
}

}  // namespace
}  // namespace andiron::probe
