// SPDX-License-Identifier: MIT
#include "agent/probe/docker_messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace andiron::probe {
namespace {

const std::string kId(64, 'a');

TEST(DockerMessages, AnEventHasWhatWeAskOfIt) {
  const auto event = parse_docker_event(
      R"({"status":"start","id":"x","from":"img","Type":"container","Action":"start","Actor":{"ID":")" +
      kId +
      R"(","Attributes":{"image":"img","name":"ollama","Action":"no"}},"scope":"local","time":1,)"
      R"("timeNano":1764453600123456789})");
  ASSERT_TRUE(event) << event.error().message();
  EXPECT_EQ(event->action, "start");
  EXPECT_EQ(event->id, kId);
  EXPECT_EQ(event->name, "ollama");
  EXPECT_EQ(event->time_ns, 1764453600123456789U);
}

TEST(DockerMessages, AnEventOfAStrangerIsRefusedOrHasNoWords) {
  const std::string deep(100, '[');
  for (const std::string& line :
       {std::string("{"), std::string("[]"), std::string("7"), std::string("{}"), std::string(""),
        std::string(R"({"Action":"start"})"), std::string(R"({"Action":7,"Actor":{"ID":"a"}})"),
        std::string(R"({"Action":"start","Actor":{"ID":"../../etc"}})"),
        std::string(R"({"Action":"exec_start: sh -c x","Actor":{"ID":"a"}})"),
        std::string(R"({"Action":"start","Actor":{"ID":")") + std::string(200, 'a') + "\"}}",
        "{\"Action\":" + deep, std::string("{\"Action\":\"start\0\"}", 19)}) {
    EXPECT_FALSE(parse_docker_event(line)) << line.substr(0, 60);
  }
  const auto event = parse_docker_event(
      R"({"Action":"start","Actor":{"ID":"a","Attributes":{"name":"a b\n"}},"timeNano":-5})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->name, "");
  EXPECT_EQ(event->time_ns, 0U);
}

TEST(DockerMessages, AListHasEachContainersOwnName) {
  const auto list = parse_docker_list(
      R"([{"Id":"one","Names":["/web/db","/ollama"],"Ports":[{"Id":"no"}],"Labels":{"Id":"no"}},)"
      R"({"Id":"two","Names":["/vllm"]},{"Names":["/no-id"]},{"Id":"three","Names":null}])",
      10);
  ASSERT_TRUE(list) << list.error().message();
  ASSERT_EQ(list->size(), 3U);
  EXPECT_EQ((*list)[0].id, "one");
  EXPECT_EQ((*list)[0].name, "ollama");
  EXPECT_EQ((*list)[1].name, "vllm");
  EXPECT_EQ((*list)[2].name, "");
  EXPECT_TRUE(parse_docker_list("[]", 0));
}

TEST(DockerMessages, AListThatIsNoneOrTooLongIsRefused) {
  EXPECT_EQ(parse_docker_list(R"([{"Id":"a"},{"Id":"b"}])", 1).error().errc(), Errc::too_large);
  EXPECT_FALSE(parse_docker_list(R"({"message":"no"})", 5));
  EXPECT_FALSE(parse_docker_list("7", 5));
  EXPECT_FALSE(parse_docker_list("[", 5));
}

TEST(DockerMessages, AStateTellsTheProcessOfWhatRuns) {
  const auto state = parse_docker_state(
      R"({"Id":"one","Name":"/ollama","State":{"Status":"running","Pid":4711,)"
      R"("StartedAt":"2026-11-29T21:00:00.123456789Z"},"HostConfig":{"Pid":1,"State":{"Pid":2}}})");
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->name, "ollama");
  EXPECT_EQ(state->pid, 4711);
  ASSERT_TRUE(state->started_at);
  EXPECT_EQ(format_time(*state->started_at), "2026-11-29T21:00:00.123Z");
  EXPECT_EQ(parse_docker_state(R"({"Id":"a","State":{"Pid":0}})")->pid, std::nullopt);
  EXPECT_EQ(parse_docker_state(R"({"Id":"a","State":{"Pid":99999999999}})")->pid, std::nullopt);
  EXPECT_FALSE(parse_docker_state(R"({"State":{"Pid":5}})"));
}

}  // namespace
}  // namespace andiron::probe
