// SPDX-License-Identifier: MIT
#include "agent/api/router.hpp"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "agent/api/target.hpp"

namespace andiron::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class RouterTest : public ::testing::Test {
 protected:
  void add(const char* method, const char* pattern) {
    router_.add(method, pattern, [this, pattern](Request request, Router::Params params) {
      called_ = request.method + " " + pattern;
      params_ = std::move(params);
    });
  }
  std::optional<Response> send(const char* method, const char* target) {
    auto parts = split_target(target);
    Request request;
    request.method = method;
    request.path = parts->path;
    request.segments = parts->segments;
    called_.clear();
    return router_.dispatch(std::move(request));
  }

  Router router_;
  std::string called_;
  Router::Params params_;
};

TEST_F(RouterTest, CapturesDecodedSegments) {
  add("GET", "/v1/models");
  add("GET", "/v1/models/{name}");
  add("POST", "/v1/models/{name}/warm");
  EXPECT_FALSE(send("POST", "/v1/models/a%2Fb%2Fwarm/warm"));
  EXPECT_EQ(called_, "POST /v1/models/{name}/warm");
  EXPECT_THAT(params_, ElementsAre(Pair("name", "a/b/warm")));
  EXPECT_FALSE(send("GET", "/v1/models"));
  EXPECT_EQ(called_, "GET /v1/models");
}

TEST_F(RouterTest, LiteralsWinOverCaptures) {
  add("GET", "/v1/{a}/{b}");
  add("GET", "/v1/{a}/x");
  add("GET", "/v1/jobs/{b}");
  EXPECT_FALSE(send("GET", "/v1/jobs/x"));
  EXPECT_EQ(called_, "GET /v1/jobs/{b}");
  EXPECT_FALSE(send("GET", "/v1/other/x"));
  EXPECT_EQ(called_, "GET /v1/{a}/x");
}

TEST_F(RouterTest, UnknownPathsAreNotFound) {
  add("GET", "/v1/models/{name}");
  for (const char* target : {"/", "/v1", "/v1/models", "/v1/models/", "/v1/models/x/",
                             "/V1/models/x", "/v1//models/x", "/v1/models/x/y"}) {
    const auto answer = send("GET", target);
    ASSERT_TRUE(answer) << target;
    EXPECT_EQ(answer->status, 404U);
    EXPECT_THAT(answer->body.text(), HasSubstr("\"not_found\""));
    EXPECT_EQ(answer->allow, "");
  }
  EXPECT_EQ(called_, "");
}

TEST_F(RouterTest, KnownPathsNameTheirMethods) {
  add("GET", "/v1/jobs/{id}");
  add("DELETE", "/v1/jobs/{id}");
  for (const char* method : {"POST", "get", "BREW"}) {
    const auto answer = send(method, "/v1/jobs/7");
    ASSERT_TRUE(answer) << method;
    EXPECT_EQ(answer->status, 405U);
    EXPECT_EQ(answer->allow, "DELETE, GET");
    EXPECT_THAT(answer->body.text(), HasSubstr("\"method_not_allowed\""));
  }
}

TEST_F(RouterTest, HeadTakesTheWayOfGet) {
  add("GET", "/v1/jobs/{id}");
  add("POST", "/v1/warm");
  EXPECT_FALSE(send("HEAD", "/v1/jobs/7"));
  EXPECT_EQ(called_, "HEAD /v1/jobs/{id}");
  EXPECT_EQ(send("HEAD", "/v1/warm")->status, 405U);
}

TEST_F(RouterTest, DoesNotEchoALongTarget) {
  const auto answer = send("GET", ("/" + std::string(50'000, 'a')).c_str());
  ASSERT_TRUE(answer);
  EXPECT_LT(answer->body.text().size(), 400U);
}

TEST_F(RouterTest, ARouteTwiceIsABug) {
  add("GET", "/v1/status");
  EXPECT_DEATH(add("GET", "/v1/status"), "");
}

}  // namespace
}  // namespace andiron::api
