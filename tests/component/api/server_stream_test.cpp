// SPDX-License-Identifier: MIT
#include <future>
#include <string>

#include "tests/component/api/server_fixture.hpp"

namespace andiron::api {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ServerStreamTest : public ServerFixture {
 protected:
  ConnectionId hold(RawClient& client, const std::string& request = get("/hold")) {
    EXPECT_TRUE(client.send(request));
    return next_held().connection;
  }
};

TEST_F(ServerStreamTest, StreamsLinesAndGoesOn) {
  start();
  RawClient client = connect();
  const ConnectionId id = hold(client);
  on_loop([&](Server& server) { server.begin_stream(id, 202); });
  const std::string head = client.read_head();
  EXPECT_THAT(head, StartsWith("HTTP/1.1 202 Accepted\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: application/x-ndjson\r\n"));
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
  on_loop([&](Server& server) { server.write_line(id, "{\"n\":1}"); });
  EXPECT_EQ(client.read_chunk(), "{\"n\":1}\n");
  on_loop([&](Server& server) {
    server.write_line(id, "{\"n\":2}");
    server.write_line(id, "");
    server.end_stream(id);
  });
  EXPECT_EQ(client.read_chunk(), "{\"n\":2}\n");
  EXPECT_EQ(client.read_chunk(), "\n");
  EXPECT_EQ(client.read_chunk(), "");
  EXPECT_EQ(ask(client, post("/echo", "next")).body, "next");
  EXPECT_EQ(gone_count(), 0U);
}

TEST_F(ServerStreamTest, ABacklogDoesNotCountAgainstTheLimit) {
  start({.stream_backlog = 1000});
  RawClient client = connect();
  const ConnectionId id = hold(client);
  std::string backlog;
  for (int i = 0; i < 100'000; ++i)
    backlog += "{\"i\":" + std::to_string(i) + "}\n";
  on_loop([&](Server& server) {
    server.begin_stream(id, 200, backlog);
    server.write_line(id, "{}");
    server.end_stream(id);
  });
  EXPECT_EQ(client.read_answer().body, backlog + "{}\n");
}

TEST_F(ServerStreamTest, Http10StreamsToTheEnd) {
  start();
  RawClient client = connect();
  const ConnectionId id = hold(client, "GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  on_loop([&](Server& server) {
    server.begin_stream(id, 200, "a\n");
    server.write_line(id, "b");
    server.end_stream(id);
  });
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
  EXPECT_THAT(all, EndsWith("\r\n\r\na\nb\n"));
}

TEST_F(ServerStreamTest, AStreamToHeadIsItsHeadAlone) {
  start();
  RawClient client = connect();
  const ConnectionId id = hold(client, "HEAD /hold HTTP/1.1\r\n\r\n");
  on_loop([&](Server& server) {
    server.begin_stream(id, 200, "a\n");
    server.write_line(id, "b");
    server.end_stream(id);
  });
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\n"));
  EXPECT_EQ(gone_count(), 0U);
}

TEST_F(ServerStreamTest, ASlowReaderIsCut) {
  start({.stream_backlog = 64 * 1024});
  RawClient slow = connect();
  const ConnectionId id = hold(slow);
  const std::string line(4096, 'l');
  on_loop([&](Server& server) {
    server.begin_stream(id);
    // The socket's own buffer takes a few hundred KiB at most.
    for (int i = 0; i < 1000; ++i)
      server.write_line(id, line);
  });
  EXPECT_EQ(next_gone(), id);
  wait_for_connections(0);
  RawClient other = connect();
  EXPECT_EQ(ask(other, post("/echo", "served")).body, "served");
}

TEST_F(ServerStreamTest, AReaderThatStopsIsCutInTime) {
  start({.idle_deadline = std::chrono::milliseconds(50)});
  RawClient stuck = connect();
  const ConnectionId id = hold(stuck);
  on_loop([&](Server& server) { server.begin_stream(id, 200, std::string(5'000'000, '\n')); });
  EXPECT_EQ(next_gone(), id);
}

TEST_F(ServerStreamTest, AQuietStreamIsNotCut) {
  start({.request_deadline = std::chrono::milliseconds(50),
         .idle_deadline = std::chrono::milliseconds(50)});
  RawClient quiet = connect();
  const ConnectionId id = hold(quiet);
  on_loop([&](Server& server) { server.begin_stream(id); });
  quiet.read_head();
  // An idle connection that came later is closed; so the deadlines have passed.
  RawClient idle = connect();
  EXPECT_EQ(idle.read_to_end(), "");
  on_loop([&](Server& server) { server.write_line(id, "here"); });
  EXPECT_EQ(quiet.read_chunk(), "here\n");
}

TEST_F(ServerStreamTest, TellsThatTheReaderWentAway) {
  start();
  RawClient client = connect();
  const ConnectionId id = hold(client);
  on_loop([&](Server& server) { server.begin_stream(id); });
  client.read_head();
  client.close();
  EXPECT_EQ(next_gone(), id);
}

TEST_F(ServerStreamTest, StreamsDoNotTakeConnections) {
  start({.connections = 1, .streams = 2});
  RawClient first = connect();
  const ConnectionId first_id = hold(first);
  on_loop([&](Server& server) { server.begin_stream(first_id); });
  RawClient second = connect();
  const ConnectionId second_id = hold(second);
  on_loop([&](Server& server) { server.begin_stream(second_id); });

  RawClient third = connect();
  const ConnectionId third_id = hold(third);
  on_loop([&](Server& server) { server.begin_stream(third_id); });
  const Answer refused = third.read_answer();
  EXPECT_EQ(refused.status, 503U);
  EXPECT_THAT(refused.body, HasSubstr("\"unavailable\""));
  EXPECT_EQ(next_gone(), third_id);
  EXPECT_EQ(ask(third, post("/echo", "still here")).body, "still here");

  // A stream that ends while the plain ones are full finishes, and gives way.
  on_loop([&](Server& server) {
    server.write_line(first_id, "last");
    server.end_stream(first_id);
  });
  EXPECT_EQ(first.read_answer().body, "last\n");
  EXPECT_EQ(first.read_to_end(), "");
  third.close();
  wait_for_connections(1);
  on_loop([&](Server& server) { server.end_stream(second_id); });
  second.read_answer();
  EXPECT_EQ(ask(second, post("/echo", "plain again")).body, "plain again");
}

TEST_F(ServerStreamTest, ShutdownCutsAStreamThatDoesNotEnd) {
  start();
  RawClient follower = connect();
  const ConnectionId id = hold(follower);
  RawClient ended = connect();
  const ConnectionId ended_id = hold(ended);
  std::promise<void> done;
  on_loop([&](Server& server) {
    server.begin_stream(id);
    server.begin_stream(ended_id);
    server.shutdown(std::chrono::milliseconds(50), [&] { done.set_value(); });
    server.write_line(ended_id, "bye");
    server.end_stream(ended_id);
  });
  EXPECT_EQ(ended.read_answer().body, "bye\n");
  EXPECT_EQ(ended.read_to_end(), "");
  EXPECT_EQ(next_gone(), id);
  done.get_future().wait();
  EXPECT_EQ(gone_count(), 1U);
}

}  // namespace
}  // namespace andiron::api
