// SPDX-License-Identifier: MIT
#include "agent/api/request_reader.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <string>

namespace andiron::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Step = RequestReader::Step;

constexpr std::size_t kLimit = 1024;

/// The status that this text is refused with; 0 where it is taken or wants more.
unsigned status_of(std::string_view text) {
  RequestReader reader(kLimit);
  reader.append(text);
  return reader.step() == Step::failed ? reader.failure().status : 0;
}

/// The request that this text is, which must be one.
Request request_of(std::string_view text) {
  RequestReader reader(kLimit);
  reader.append(text);
  EXPECT_EQ(reader.step(), Step::request);
  return reader.take().request;
}

TEST(RequestReaderTest, ReadsOneRequest) {
  const Request request = request_of(
      "POST /v1/models/a%2Fb/warm?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/models/a%2Fb/warm");
  EXPECT_THAT(request.segments, ElementsAre("v1", "models", "a/b", "warm"));
  EXPECT_THAT(request.query, ElementsAre(Pair("x", "1")));
  EXPECT_EQ(request.body, "{}");
  EXPECT_FALSE(request.accepts_ndjson);
}

TEST(RequestReaderTest, KeepsWhatTheHeaderClaims) {
  RequestReader reader(kLimit);
  reader.append(
      "GET / HTTP/1.1\r\nhOST:  box.lan:80 \r\nAuthorization: Bearer a b\r\n"
      "Origin: http://x\r\n\r\nGET / HTTP/1.0\r\n\r\n");
  ASSERT_EQ(reader.step(), Step::request);
  const Claims claims = reader.take().claims;
  EXPECT_EQ(claims.host, "box.lan:80");
  EXPECT_EQ(claims.authorization, "Bearer a b");
  EXPECT_EQ(claims.origin, "http://x");
  ASSERT_EQ(reader.step(), Step::request);
  const Claims none = reader.take().claims;
  EXPECT_EQ(none.host, "");
  EXPECT_FALSE(none.authorization || none.origin || none.for_other_site);
}

TEST(RequestReaderTest, KnowsAPartOfAnotherSitesPage) {
  const auto for_other_site = [](const std::string& site, const std::string& mode) {
    RequestReader reader(kLimit);
    reader.append("GET / HTTP/1.1\r\nSec-Fetch-Site: " + site + "\r\nSec-Fetch-Mode: " + mode +
                  "\r\n\r\n");
    EXPECT_EQ(reader.step(), Step::request);
    return reader.take().claims.for_other_site;
  };
  EXPECT_TRUE(for_other_site("cross-site", "no-cors"));
  EXPECT_TRUE(for_other_site("cross-site", "cors"));
  EXPECT_FALSE(for_other_site("cross-site", "navigate"));
  EXPECT_FALSE(for_other_site("same-origin", "cors"));
  EXPECT_FALSE(for_other_site("none", "navigate"));
}

TEST(RequestReaderTest, AClaimIsMadeOnce) {
  for (const std::string name : {"Host", "Authorization", "Origin"}) {
    RequestReader reader(kLimit);
    reader.append("GET / HTTP/1.1\r\n" + name + ": a\r\n" + name + ": a\r\n\r\n");
    ASSERT_EQ(reader.step(), Step::failed) << name;
    EXPECT_EQ(reader.failure().status, 400U);
  }
}

TEST(RequestReaderTest, ReadsByteByByte) {
  const std::string text =
      "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
      "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n";
  RequestReader reader(kLimit);
  std::vector<std::string> bodies;
  EXPECT_FALSE(reader.in_request());
  for (const char c : text) {
    reader.append({&c, 1});
    EXPECT_TRUE(reader.in_request());
    const Step step = reader.step();
    if (step == Step::request) {
      bodies.push_back(reader.take().request.body);
      EXPECT_FALSE(reader.in_request());
    } else {
      ASSERT_EQ(step, Step::need_more);
    }
  }
  EXPECT_THAT(bodies, ElementsAre("abc", "def"));
}

TEST(RequestReaderTest, KeepsPipelinedRequestsApart) {
  RequestReader reader(kLimit);
  reader.append("GET /1 HTTP/1.1\r\n\r\n\r\nGET /2 HTTP/1.1\r\nConnection: close\r\n\r\nGET /3");
  ASSERT_EQ(reader.step(), Step::request);
  ParsedRequest first = reader.take();
  EXPECT_EQ(first.request.path, "/1");
  EXPECT_TRUE(first.keep_alive);
  ASSERT_EQ(reader.step(), Step::request);
  ParsedRequest second = reader.take();
  EXPECT_EQ(second.request.path, "/2");
  EXPECT_FALSE(second.keep_alive);
  EXPECT_EQ(reader.step(), Step::need_more);
  EXPECT_TRUE(reader.in_request());
}

TEST(RequestReaderTest, Http10) {
  RequestReader reader(kLimit);
  reader.append("GET / HTTP/1.0\r\n\r\n");
  ASSERT_EQ(reader.step(), Step::request);
  const ParsedRequest parsed = reader.take();
  EXPECT_TRUE(parsed.http_1_0);
  EXPECT_FALSE(parsed.keep_alive);
}

TEST(RequestReaderTest, SeesWhoWantsNdjson) {
  const auto wants = [](const char* accept) {
    return request_of(std::string("GET / HTTP/1.1\r\n") + accept + "\r\n\r\n").accepts_ndjson;
  };
  EXPECT_TRUE(wants("Accept: application/x-ndjson"));
  EXPECT_TRUE(wants("accept: text/html, Application/X-NDJSON;q=0.9"));
  EXPECT_TRUE(wants("Accept: text/html\r\nAccept: application/x-ndjson"));
  EXPECT_FALSE(wants("Accept: */*"));
  EXPECT_FALSE(wants("Accept: application/x-ndjsonx"));
  EXPECT_FALSE(wants("X-Accept: application/x-ndjson"));
}

TEST(RequestReaderTest, SendsContinueOnce) {
  RequestReader reader(kLimit);
  reader.append("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(reader.step(), Step::send_continue);
  EXPECT_EQ(reader.step(), Step::need_more);
  reader.append("{}");
  ASSERT_EQ(reader.step(), Step::request);
  EXPECT_EQ(reader.take().request.body, "{}");
}

TEST(RequestReaderTest, NoContinueWhenTheBodyIsThereOrRefused) {
  RequestReader reader(kLimit);
  reader.append("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(reader.step(), Step::request);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n"),
            413U);
}

TEST(RequestReaderTest, TheLimitHoldsForHeaderAndBodyTogether) {
  const std::string head = "POST / HTTP/1.1\r\nContent-Length: ";
  const std::size_t room = kLimit - (head + "1000\r\n\r\n").size();
  ASSERT_LT(room, 1000U);
  const auto sized = [&](std::size_t body) {
    std::string text = head + "0" + std::to_string(body) + "\r\n\r\n";
    return text + std::string(body, 'x');
  };
  EXPECT_EQ(sized(room).size(), kLimit);
  EXPECT_EQ(status_of(sized(room)), 0U);
  EXPECT_EQ(status_of(sized(room + 1)), 413U);
}

TEST(RequestReaderTest, LongHeadersAreRefused) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nX: " + std::string(kLimit, 'x')), 431U);
  EXPECT_EQ(status_of("GET /" + std::string(kLimit, 'x')), 431U);
  std::string many = "GET / HTTP/1.1\r\n";
  while (many.size() <= kLimit)
    many += "a: b\r\n";
  EXPECT_EQ(status_of(many), 431U);
  EXPECT_EQ(status_of(many + "\r\n"), 431U);
}

TEST(RequestReaderTest, EndlessChunksAreRefused) {
  std::string text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  while (text.size() <= kLimit)
    text += "1;extension=1\r\nx\r\n";
  EXPECT_EQ(status_of(text), 413U);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\nx"), 413U);
}

TEST(RequestReaderTest, AmbiguousFramingIsRefused) {
  for (const char* headers :
       {"Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 1", "Content-Length: 1\r\nContent-Length: 2",
        "Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Content-Length: -1",
        "Content-Length: 1x", "Content-Length: 99999999999999999999", "Content-Length : 1"}) {
    EXPECT_EQ(status_of(std::string("POST / HTTP/1.1\r\n") + headers + "\r\n\r\nx"), 400U)
        << headers;
  }
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400U);
}

TEST(RequestReaderTest, GarbageIsRefusedForGood) {
  RequestReader reader(kLimit);
  reader.append(std::string_view("\x16\x03\x01\x00\xa5\x01\x00", 7));
  ASSERT_EQ(reader.step(), Step::failed);
  EXPECT_EQ(reader.failure().status, 400U);
  EXPECT_THAT(std::string(reader.failure().body.text()), HasSubstr("\"bad_request\""));
  reader.append("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(reader.step(), Step::failed);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\n\r\n"), 400U);
  EXPECT_EQ(status_of("GET /%zz HTTP/1.1\r\n\r\n"), 400U);
  EXPECT_EQ(status_of("CONNECT host:80 HTTP/1.1\r\n\r\n"), 400U);
}

}  // namespace
}  // namespace andiron::api
