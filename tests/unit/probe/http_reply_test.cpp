// SPDX-License-Identifier: MIT
#include "agent/probe/http_reply.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace andiron::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Got {
  std::string body;
  unsigned status = 0;
  bool done = false;
  bool failed = false;
};

Got read(std::string_view text, std::size_t piece, bool hang_up = false) {
  HttpReply reply;
  Got got;
  while (!text.empty() && !got.failed) {
    const auto fed =
        reply.feed(text.substr(0, piece), [&](std::string_view bytes) { got.body += bytes; });
    got.failed = !fed;
    text.remove_prefix(std::min(piece, text.size()));
  }
  if (hang_up && !got.failed) got.failed = !reply.finish();
  got.status = reply.status();
  got.done = reply.done();
  return got;
}

constexpr std::string_view kChunked =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: Chunked\r\n\r\n"
    "5\r\nhello\r\n6;name=value\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n";

TEST(HttpReply, TakesChunksApartHoweverTheyAreCut) {
  for (std::size_t piece = 1; piece <= kChunked.size(); ++piece) {
    SCOPED_TRACE(piece);
    const Got got = read(kChunked, piece);
    EXPECT_EQ(got.body, "hello world");
    EXPECT_EQ(got.status, 200U);
    EXPECT_TRUE(got.done);
    EXPECT_FALSE(got.failed);
  }
}

TEST(HttpReply, AChunkIsToldAsItComes) {
  HttpReply reply;
  std::string body;
  const auto sink = [&](std::string_view bytes) { body += bytes; };
  ASSERT_TRUE(reply.feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{", sink));
  EXPECT_EQ(body, "{");
  EXPECT_FALSE(reply.done());
  EXPECT_FALSE(reply.finish());  // it ended too early
}

TEST(HttpReply, TakesALengthAndTheEndOfTheConnection) {
  const Got sized = read("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone", 3);
  EXPECT_EQ(sized.body, "gone");
  EXPECT_EQ(sized.status, 404U);
  EXPECT_TRUE(sized.done);
  EXPECT_TRUE(read("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 100).done);
  EXPECT_TRUE(read("HTTP/1.1 204 No Content\r\n\r\n", 100).done);
  const Got open = read("HTTP/1.0 200 OK\r\n\r\nall of it", 4, true);
  EXPECT_EQ(open.body, "all of it");
  EXPECT_TRUE(open.done);
}

TEST(HttpReply, AnInterimReplyIsNotTheReply) {
  const Got got = read(
      "HTTP/1.1 103 Early\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
      "2\r\n\r\nok",
      1);
  EXPECT_EQ(got.body, "ok");
  EXPECT_EQ(got.status, 200U);
}

TEST(HttpReply, RefusesWhatIsNone) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& text :
       {std::string("SSH-2.0-OpenSSH_9.2\r\n\r\n"), std::string("HTTP/1.1 2x0 OK\r\n\r\n"),
        std::string("HTTP/1.1 099 No\r\n\r\n"), std::string("HTTP/2 200\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"), chunked + "g\r\n",
        chunked + "\r\n", chunked + "fffffffffffffffff\r\n", chunked + "10000000001\r\n",
        chunked + "1\r\nab\r\n", chunked + std::string(300, '0') + "1\r\n",
        "HTTP/1.1 200 OK\r\n" + std::string(HttpReply::kMaxHead, 'x'),
        chunked + "0\r\n" + std::string(HttpReply::kMaxHead + 1, 'x'),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay")}) {
    SCOPED_TRACE(text.substr(0, 80));
    EXPECT_TRUE(read(text, 7).failed);
  }
}

TEST(HttpReply, EndlessTrailersAreRefused) {
  std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 3000; ++i)
    text += "a: b\r\n";
  EXPECT_TRUE(read(text, 100).failed);
}

TEST(LineSplitter, GivesWholeLinesHoweverTheyAreCut) {
  constexpr std::string_view kText = "{\"a\":1}\n\r\n\n{\"b\":2}\r\nunfinished";
  for (std::size_t piece = 1; piece <= kText.size(); ++piece) {
    SCOPED_TRACE(piece);
    LineSplitter splitter(64);
    std::vector<std::string> lines;
    for (std::string_view left = kText; !left.empty();
         left.remove_prefix(std::min(piece, left.size()))) {
      splitter.feed(left.substr(0, piece),
                    [&](std::string_view line) { lines.emplace_back(line); });
    }
    EXPECT_THAT(lines, ElementsAre("{\"a\":1}", "{\"b\":2}"));
    EXPECT_EQ(splitter.dropped(), 0U);
  }
}

TEST(LineSplitter, ALineThatIsTooLongIsLeftOutAndCountedAndTheNextComes) {
  LineSplitter splitter(8);
  std::vector<std::string> lines;
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  for (int i = 0; i < 1000; ++i)
    splitter.feed("0123456789", sink);
  EXPECT_THAT(lines, IsEmpty());
  splitter.feed("\nnext\n012345678\nlast\n", sink);
  EXPECT_THAT(lines, ElementsAre("next", "last"));
  EXPECT_EQ(splitter.dropped(), 2U);
}

}  // namespace
}  // namespace andiron::probe
