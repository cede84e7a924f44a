// SPDX-License-Identifier: MIT
#include "agent/core/model_table.hpp"

#include <gtest/gtest.h>

namespace andiron::core {
namespace {

ModelRecord resolved_record(std::uint64_t bytes) {
  ModelRecord record;
  record.resolved.emplace();
  record.resolved->source.files.push_back({"/m", {1, 2, bytes, 0, 0}, false});
  record.resolved->source.bytes = bytes;
  record.samples.resize(1);
  return record;
}

TEST(ModelRecord, StateFollowsResidency) {
  ModelRecord record = resolved_record(100);
  EXPECT_EQ(record.state(), ModelState::cold);  // not measured, never warmed
  record.samples[0].resident = 0;
  EXPECT_EQ(record.state(), ModelState::cold);
  record.samples[0].resident = 40;
  EXPECT_EQ(record.state(), ModelState::partial);
  record.samples[0].resident = 100;
  EXPECT_EQ(record.state(), ModelState::warm);
  record.stale = true;
  EXPECT_EQ(record.state(), ModelState::stale);
  record.job = 1;
  EXPECT_EQ(record.state(), ModelState::warming);
}

TEST(ModelRecord, WhatCannotBeMeasuredIsWhatTheLastFillSaid) {
  ModelRecord record = resolved_record(100);
  record.samples[0].unknown = "ARC";
  EXPECT_EQ(record.resident_bytes(), std::nullopt);
  record.ever_warmed = true;
  EXPECT_EQ(record.state(), ModelState::warm);
}

TEST(ModelRecord, TellsMissingFromBroken) {
  ModelRecord record;
  record.resolve_error = make_error(Errc::source_not_found, "/m");
  EXPECT_EQ(record.state(), ModelState::missing);
  record.resolve_error = make_error(Errc::incomplete_shards, "/m");
  EXPECT_EQ(record.state(), ModelState::missing);
  record.resolve_error = make_error(Errc::truncated, "/m");
  EXPECT_EQ(record.state(), ModelState::error);
}

TEST(ModelRecord, TellsOfEvictionsOnceAMinuteAndOfAllOfThem) {
  ModelRecord record;
  SteadyTime now{};
  EXPECT_EQ(record.evicted_to_tell(10, now), 10u);
  now += std::chrono::seconds(2);
  EXPECT_EQ(record.evicted_to_tell(3, now), std::nullopt);
  EXPECT_EQ(record.evicted_to_tell(4, now), std::nullopt);
  now += std::chrono::seconds(58);
  EXPECT_EQ(record.evicted_to_tell(5, now), 12u);
  EXPECT_EQ(record.evicted_to_tell(6, now), std::nullopt);
  now += std::chrono::hours(1);
  EXPECT_EQ(record.evicted_to_tell(1, now), 7u);
}

TEST(ModelRecord, BackOffDoublesUpToHalfAnHour) {
  ModelRecord record;
  const SteadyTime now{};
  record.back_off_from(now);
  EXPECT_EQ(*record.retry_after, now + std::chrono::seconds(30));
  for (int i = 0; i < 10; ++i)
    record.back_off_from(now);
  EXPECT_EQ(*record.retry_after, now + std::chrono::minutes(30));
}

TEST(ModelTable, BoundsWhatComesOverTheSocket) {
  ModelTable table;
  for (std::size_t i = 0; i < ModelTable::kMaxAdHoc; ++i) {
    ASSERT_TRUE(table.add_ad_hoc("/m" + std::to_string(i), {}).has_value());
  }
  const auto refused = table.add_ad_hoc("/one-more", {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().errc(), Errc::unavailable);
  EXPECT_NE(table.find_source("/m7"), nullptr);
}

}  // namespace
}  // namespace andiron::core
