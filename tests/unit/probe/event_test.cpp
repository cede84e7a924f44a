// SPDX-License-Identifier: MIT
#include "agent/probe/event.hpp"

#include <gtest/gtest.h>

#include <set>

namespace andiron::probe {
namespace {

TEST(Event, TypesHaveTheNamesOfTheApi) {
  EXPECT_EQ(to_string(EventType::model_warmed), "model.warmed");
  EXPECT_EQ(to_string(EventType::model_evicted), "model.evicted");
  EXPECT_EQ(to_string(EventType::model_changed), "model.changed");
  EXPECT_EQ(to_string(EventType::model_opened), "model.opened");
  EXPECT_EQ(to_string(EventType::model_missing), "model.missing");
  EXPECT_EQ(to_string(EventType::job_failed), "job.failed");
  EXPECT_EQ(to_string(EventType::memory_pressure), "memory.pressure");
  EXPECT_EQ(to_string(EventType::container_started), "container.started");
  EXPECT_EQ(to_string(EventType::container_stopped), "container.stopped");
  EXPECT_EQ(to_string(EventType::agent_degraded), "agent.degraded");
}

TEST(Event, CausesHaveTheNamesOfTheApi) {
  const std::set<std::string_view> wanted = {
      "kswapd",       "direct-reclaim", "memcg-reclaim", "damon",   "drop-caches", "fadvise",
      "direct-write", "truncate",       "unlink",        "andiron", "unknown"};
  std::set<std::string_view> names;
  for (int value = 0; value <= static_cast<int>(Cause::unknown); ++value) {
    names.insert(to_string(static_cast<Cause>(value)));
  }
  EXPECT_EQ(names, wanted);
}

}  // namespace
}  // namespace andiron::probe
