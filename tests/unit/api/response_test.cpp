// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "agent/api/json_body.hpp"
#include "agent/api/server.hpp"

namespace andiron::api {
namespace {

using nlohmann::json;

TEST(ResponseTest, EveryCodeHasItsStatus) {
  const std::vector<std::pair<Errc, unsigned>> expected = {
      {Errc::model_not_found, 404},
      {Errc::source_not_found, 404},
      {Errc::not_found, 404},
      {Errc::outside_roots, 403},
      {Errc::permission_denied, 403},
      {Errc::bad_request, 400},
      {Errc::bad_config, 400},
      {Errc::not_regular_file, 422},
      {Errc::symlink_loop, 422},
      {Errc::bad_format, 422},
      {Errc::truncated, 422},
      {Errc::incomplete_shards, 422},
      {Errc::no_budget, 409},
      {Errc::no_headroom, 409},
      {Errc::stale, 409},
      {Errc::already_running, 409},
      {Errc::lock_limit, 409},
      {Errc::cancelled, 409},
      {Errc::timeout, 504},
      {Errc::unavailable, 503},
      {Errc::io_error, 500},
      {Errc::method_not_allowed, 405},
      {Errc::unauthorized, 401},
      {Errc::too_many_requests, 429},
      {Errc::too_large, 413},
  };
  for (const auto& [code, status] : expected)
    EXPECT_EQ(http_status(code), status) << error_name(code);
  EXPECT_EQ(expected.size(), static_cast<std::size_t>(Errc::too_many_requests));
}

TEST(ResponseTest, AnErrorIsJson) {
  const Response response = error_response(make_error(Errc::model_not_found, "model 'x'"));
  EXPECT_EQ(response.status, 404U);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(
      json::parse(response.body.text()),
      json({{"error", {{"code", "model_not_found"}, {"message", "model 'x': no such model"}}}}));
}

TEST(ResponseTest, ASystemErrorGetsTheNearestCode) {
  const Response response = error_response(make_system_error(EACCES, "open /x"));
  EXPECT_EQ(response.status, 403U);
  EXPECT_EQ(json::parse(response.body.text())["error"]["code"], "permission_denied");
}

TEST(ResponseTest, FileNamesThatAreNoUtf8StayValidJson) {
  const Response response = error_response(make_error(Errc::source_not_found, "/m/\xff\xfe.gguf"));
  const json parsed = json::parse(response.body.text(), nullptr, false);
  ASSERT_FALSE(parsed.is_discarded());
  EXPECT_EQ(parsed["error"]["message"], "/m/\xef\xbf\xbd\xef\xbf\xbd.gguf: source not found");
}

}  // namespace
}  // namespace andiron::api
