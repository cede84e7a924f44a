// SPDX-License-Identifier: MIT
#include "agent/cli/bodies.hpp"

#include <gtest/gtest.h>

namespace andiron::cli {
namespace {

TEST(Bodies, ModelAsTheApiSaysIt) {
  const auto model = parse_model(
      R"({"name":"assistant","source":"ollama:llama3.2:3b","files":1,"bytes":2019377376,)"
      R"("state":"warm","priority":"interactive","want":{"tier":"page-cache","hold":"locked"},)"
      R"("tiers":{"page-cache":{"resident_bytes":null,"locked_bytes":17,"hold":"locked"},)"
      R"("pinned-ram":{"resident_bytes":5,"leases":0},"vram":[]},)"
      R"("evictions":{"count":3,"bytes":99},"last_used":"2026-11-29T10:00:00Z",)"
      R"("files_detail":[{"path":"/m/a","bytes":17,"resident_bytes":null,"locked_bytes":2,)"
      R"("companion":true}],"last_load":{"locate_s":0.5,"bytes":17},)"
      R"("last_error":{"code":"stale","message":"changed"},"notes":["n"],"explain":["e","f"]})");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->bytes, 2019377376U);
  EXPECT_EQ(model->want_hold, "locked");
  EXPECT_FALSE(model->resident_bytes.has_value()) << "null is unknown and not 0";
  EXPECT_EQ(model->locked_bytes, 17U);
  EXPECT_EQ(model->pinned_bytes, 5U);
  EXPECT_EQ(model->evictions, 3U);
  ASSERT_EQ(model->files_detail.size(), 1U);
  EXPECT_TRUE(model->files_detail[0].companion);
  EXPECT_EQ(model->last_load.value_or(LoadBody{}).locate_s, 0.5);
  EXPECT_EQ(model->last_error.value_or(ErrorBody{}).code, "stale");
  EXPECT_EQ(model->explain, (std::vector<std::string>{"e", "f"}));
}

TEST(Bodies, EveryStringIsEscaped) {
  const auto model =
      parse_model(R"({"name":"a\u001b[2J","notes":["\u009b31m"],"explain":["\u202e"],)"
                  R"("files_detail":[{"path":"/m/\n"}],"last_error":{"message":"\u0007"}})");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->name, "a\\x1b[2J");
  EXPECT_EQ(model->notes.at(0), "\\x9b31m");
  EXPECT_EQ(model->explain.at(0), "\\u202e");
  EXPECT_EQ(model->files_detail.at(0).path, "/m/\\n");
  EXPECT_EQ(model->last_error->message, "\\x07");
  EXPECT_EQ(parse_event(R"({"by":{"comm":"\u001b]0;x"}})")->by_comm, "\\x1b]0;x");
}

TEST(Bodies, WrongTypesAreAsMissing) {
  const auto model = parse_model(
      R"({"name":7,"bytes":-1,"files":"x","want":[],"tiers":{"page-cache":3},"notes":{"a":1},)"
      R"("files_detail":[3,null,{"bytes":1e99}],"last_load":[],"evictions":null})");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->name, "");
  EXPECT_EQ(model->bytes, 0U);
  EXPECT_EQ(model->files_detail.size(), 3U);
  EXPECT_FALSE(model->last_load.has_value());
}

TEST(Bodies, WhatIsNoObjectIsAnError) {
  for (const char* text : {"", "[]", "7", "{", "<html>", "{\"name\":\"\xff\"}"}) {
    const auto model = parse_model(text);
    ASSERT_FALSE(model.has_value()) << text;
    EXPECT_EQ(model.error().errc(), Errc::bad_format);
  }
}

TEST(Bodies, Status) {
  const auto status = parse_status(
      R"({"version":"0.1.0","uptime_s":12.5,"pid":9,"config":{"path":"/c","loaded":"t"},)"
      R"("tiers":{"page-cache":{"used_bytes":1,"budget_bytes":2,"headroom_bytes":3},)"
      R"("pinned-ram":{"used_bytes":4},"vram":[{"gpu":"GPU-1","used_bytes":5}]},)"
      R"("memory":{"limit_bytes":10,"available_bytes":6,"limited_by":"machine"},)"
      R"("models":[{"name":"m"}],"jobs":2,"lanes":[{"lane":"l","device":"d","queued":1,)"
      R"("busy":true,"silent_s":1.5}],"capabilities":[{"name":"psi","state":"off",)"
      R"("reason":"r","remedy":"y"}]})");
  ASSERT_TRUE(status.has_value());
  ASSERT_EQ(status->tiers.size(), 3U);
  EXPECT_EQ(status->tiers[0].headroom_bytes, 3U);
  EXPECT_EQ(status->tiers[2].name, "vram GPU-1");
  EXPECT_EQ(status->memory_available, 6U);
  EXPECT_EQ(status->models.at(0).name, "m");
  EXPECT_TRUE(status->lanes.at(0).busy);
  EXPECT_EQ(status->capabilities.at(0).remedy, "y");
  EXPECT_EQ(status->jobs, 2U);
}

TEST(Bodies, WarmLines) {
  const auto first = parse_warm_line(R"({"job":7,"state":"running","joined":true,"done_bytes":1})");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->job, 7U);
  EXPECT_TRUE(first->joined);
  EXPECT_FALSE(first->ended());
  EXPECT_FALSE(first->total_bytes.has_value());
  const auto last = parse_warm_line(
      R"({"job":7,"state":"done","model":{"name":"m"},"warning":{"code":"lock_limit","message":"x"}})");
  ASSERT_TRUE(last.has_value());
  EXPECT_TRUE(last->ended());
  EXPECT_EQ(last->warning.value_or(ErrorBody{}).code, "lock_limit");
  EXPECT_FALSE(last->error.has_value());
}

TEST(Bodies, Errors) {
  const ErrorBody error =
      parse_error(400, R"({"error":{"code":"bad_config","message":"m","details":["a:1:2: x"]}})");
  EXPECT_EQ(error.code, "bad_config");
  EXPECT_EQ(error.details, (std::vector<std::string>{"a:1:2: x"}));
  const ErrorBody other = parse_error(502, "<h1>\x1b" + std::string(1000, 'x'));
  EXPECT_EQ(other.code, "bad_format");
  EXPECT_EQ(other.message.substr(0, 25), "status 502 with: <h1>\\x1b");
  EXPECT_LT(other.message.size(), 250U);
}

TEST(Bodies, CompanionsAreTheFilesThatAlsoNames) {
  const auto resolved = parse_resolved(
      R"({"source":"s","bytes":3,"files":[{"path":"/a","bytes":1},{"path":"/b","bytes":2}],)"
      R"("also":["/b"],"notes":["n"],"tensors":[{"name":"t","dtype":"F16","shape":[4,2],)"
      R"("file":"/a","offset":32,"bytes":16}]})");
  ASSERT_TRUE(resolved.has_value());
  EXPECT_FALSE(resolved->files.at(0).companion);
  EXPECT_TRUE(resolved->files.at(1).companion);
  EXPECT_EQ(resolved->tensors.at(0).shape, (std::vector<std::uint64_t>{4, 2}));
  EXPECT_EQ(resolved->tensors.at(0).file, "/a");
}

TEST(Bodies, DoctorBodyReadsBack) {
  using State = os::Capability::State;
  const auto read = parse_doctor(doctor_body({{"a", State::on, "r", "m"},
                                              {"b", State::degraded, "\x1b\xff", ""},
                                              {"c", State::off, "", ""}}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->at(0).state, "on");
  EXPECT_EQ(read->at(0).remedy, "m");
  EXPECT_EQ(read->at(1).state, "degraded");
  EXPECT_EQ(read->at(1).reason, "\\x1b\xef\xbf\xbd");
  EXPECT_EQ(read->at(2).state, "off");
}

TEST(Bodies, Requests) {
  EXPECT_EQ(warm_request({"", "", "", true}).value(), R"({"wait":true})");
  EXPECT_EQ(warm_request({"/m/\"a", "page-cache", "locked", false}).value(),
            R"({"hold":"locked","source":"/m/\"a","tier":"page-cache","wait":false})");
  const auto bad = warm_request({"/m/\xff", "", "", true});
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().errc(), Errc::bad_request);
  EXPECT_EQ(resolve_request("s", {"a"}, true).value(),
            R"({"also":["a"],"source":"s","tensors":true})");
  EXPECT_EQ(error_body("io_error", "a\xff\n"),
            "{\"error\":{\"code\":\"io_error\",\"message\":\"a\xef\xbf\xbd\\n\"}}");
}

}  // namespace
}  // namespace andiron::cli
