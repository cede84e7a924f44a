// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <string>

#include "tests/component/api/server_fixture.hpp"

namespace andiron::api {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ServerTest : public ServerFixture {};

/// What a shell command prints; its exit status in front.
std::string run(const std::string& command) {
  FILE* pipe = ::popen((command + "; echo \"[$?]\"").c_str(), "r");
  std::string output;
  char bytes[1024];
  for (std::size_t got = 0; (got = ::fread(bytes, 1, sizeof bytes, pipe)) > 0;)
    output.append(bytes, got);
  ::pclose(pipe);
  return output;
}

TEST_F(ServerTest, AnswersOnOneConnection) {
  start();
  RawClient client = connect();
  for (const char* body : {"one", "", "three"}) {
    const Answer answer = ask(client, post("/echo", body));
    EXPECT_EQ(answer.status, 200U);
    EXPECT_EQ(answer.body, body);
    EXPECT_THAT(answer.head, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer.head, HasSubstr("\r\nContent-Type: text/plain\r\n"));
    EXPECT_THAT(answer.head, HasSubstr("\r\nCache-Control: no-store\r\n"));
    EXPECT_THAT(answer.head, HasSubstr("\r\nConnection: keep-alive\r\n"));
  }
}

TEST_F(ServerTest, HandsOverWhoAsks) {
  start();
  RawClient client = connect();
  client.send(get("/hold"));
  const Request request = next_held();
  ASSERT_TRUE(request.peer);
  EXPECT_EQ(request.peer->pid, ::getpid());
  EXPECT_EQ(request.peer->uid, ::getuid());
  EXPECT_EQ(request.peer->gid, ::getgid());
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  RawClient client = connect();
  std::string all = get("/hold");
  for (int i = 0; i < 200; ++i)
    all += post("/echo", std::to_string(i));
  client.send(all);
  const ConnectionId id = next_held().connection;
  on_loop([&](Server& server) { server.respond(id, {200, "held", "text/plain", ""}); });
  EXPECT_EQ(client.read_answer().body, "held");
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(client.read_answer().body, std::to_string(i));
}

TEST_F(ServerTest, TakesMorePipelinedBytesThanItHolds) {
  start({.request_bytes = 4096});
  RawClient client = connect();
  const std::string request = post("/echo", std::string(3000, 'x'));
  auto sender = std::async(std::launch::async, [&] {
    EXPECT_TRUE(client.send(get("/hold")));
    for (int i = 0; i < 400; ++i)  // 1.2 MB: more than the socket's buffer
      EXPECT_TRUE(client.send(request));
  });
  const ConnectionId id = next_held().connection;
  on_loop([&](Server& server) { server.respond(id, {}); });
  client.read_answer();
  for (int i = 0; i < 400; ++i)
    ASSERT_EQ(client.read_answer().body.size(), 3000U);
  sender.wait();
}

TEST_F(ServerTest, TakesARequestByteByByte) {
  start();
  RawClient client = connect();
  for (const char c : post("/echo", "slow"))
    ASSERT_TRUE(client.send({&c, 1}));
  EXPECT_EQ(client.read_answer().body, "slow");
}

TEST_F(ServerTest, LargeAnswersArriveWhole) {
  start();
  RawClient client = connect();
  EXPECT_EQ(ask(client, get("/big?n=5000000")).body.size(), 5'000'000U);
}

TEST_F(ServerTest, ClosesWhenAskedTo) {
  start();
  RawClient client = connect();
  client.send("GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(all, HasSubstr("\r\nConnection: close\r\n"));
  RawClient old = connect();
  old.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.read_to_end(), HasSubstr("\r\nConnection: close\r\n"));
}

TEST_F(ServerTest, AnswersToHeadHaveNoBody) {
  start();
  RawClient client = connect();
  client.send("HEAD /big?n=10 HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.read_head(), HasSubstr("Content-Length: 10\r\n"));
  EXPECT_EQ(ask(client, post("/echo", "next")).body, "next");
}

TEST_F(ServerTest, SendsAllow) {
  start();
  RawClient client = connect();
  client.send(get("/hold"));
  const ConnectionId id = next_held().connection;
  on_loop([&](Server& server) { server.respond(id, {405, "x", "text/plain", "GET, POST"}); });
  EXPECT_THAT(client.read_answer().head, HasSubstr("\r\nAllow: GET, POST\r\n"));
}

TEST_F(ServerTest, TellsThatTheClientWentAwayWhileItWaited) {
  start();
  RawClient client = connect();
  client.send(get("/hold"));
  const ConnectionId id = next_held().connection;
  client.close();
  EXPECT_EQ(next_gone(), id);
  on_loop([&](Server& server) {
    server.respond(id, {});
    server.begin_stream(id);
    server.write_line(id, "x");
    server.end_stream(id);
  });
  wait_for_connections(0);
  EXPECT_EQ(gone_count(), 1U);
}

TEST_F(ServerTest, TellsItAlsoWhenMuchWasPipelined) {
  start({.request_bytes = 4096});
  RawClient client = connect();
  client.send(get("/hold"));
  const ConnectionId id = next_held().connection;
  client.send(std::string(60'000, 'x'));  // fits the socket's buffer, and not the server's
  client.close();
  EXPECT_EQ(next_gone(), id);
}

TEST_F(ServerTest, AHalfClosedClientStillGetsItsAnswer) {
  start();
  RawClient client = connect();
  client.send(get("/hold"));
  client.half_close();
  const ConnectionId id = next_held().connection;
  on_loop([](Server&) {});  // lets the loop see the end of input
  on_loop([&](Server& server) { server.respond(id, {200, "late", "text/plain", ""}); });
  EXPECT_EQ(client.read_answer().body, "late");
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_EQ(gone_count(), 0U);
}

TEST_F(ServerTest, AHalfClosedClientThatGoesIsGone) {
  start();
  RawClient client = connect();
  client.send(get("/hold"));
  client.half_close();
  const ConnectionId id = next_held().connection;
  on_loop([](Server&) {});
  client.close();
  EXPECT_EQ(next_gone(), id);
}

TEST_F(ServerTest, AnswersGarbageAndCloses) {
  start();
  RawClient client = connect();
  client.send(std::string_view("\x16\x03\x01\x00\xa5\x01\x00\x00", 8));
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(all, HasSubstr("\"code\":\"bad_request\""));
}

TEST_F(ServerTest, WorksWithCurl) {
  if (::system("command -v curl >/dev/null") != 0) GTEST_SKIP() << "curl is not installed";
  start();
  const std::string curl = "curl -sS --max-time 20 --unix-socket '" + path() + "' ";
  EXPECT_EQ(run(curl + "-d '{\"a\":1}' http://localhost/echo"), "{\"a\":1}[0]\n");
  // Past 1 KiB, older curls ask for "100 Continue" first; and now every curl does.
  const std::string body(2048, 'y');
  EXPECT_EQ(run(curl + "-H 'Expect: 100-continue' --expect100-timeout 15 -d " + body +
                " http://localhost/echo"),
            body + "[0]\n");
  EXPECT_EQ(run(curl + "http://localhost/echo http://localhost/big?n=3"), "bbb[0]\n");
  const auto large = dir_.write("large", std::string(1'000'000, 'z'));
  EXPECT_THAT(run(curl + "-o /dev/null -w '%{http_code}' --data-binary @" + large.string() +
                  " http://localhost/echo"),
              StartsWith("413"));
}

TEST_F(ServerTest, ShutdownGivesTheAnswersInProgress) {
  start();
  RawClient idle = connect();
  ask(idle, get("/echo"));
  RawClient partly = connect();
  ask(partly, get("/echo"));
  partly.send("GET /ec");
  RawClient waiting = connect();
  waiting.send(get("/hold"));
  const ConnectionId id = next_held().connection;
  std::promise<void> done;
  on_loop(
      [&](Server& server) { server.shutdown(std::chrono::hours(1), [&] { done.set_value(); }); });
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(partly.read_to_end(), "");
  EXPECT_NE(::access(path().c_str(), F_OK), 0);
  on_loop([&](Server& server) { server.respond(id, {200, "last", "text/plain", ""}); });
  EXPECT_EQ(waiting.read_answer().body, "last");
  EXPECT_EQ(waiting.read_to_end(), "");
  done.get_future().wait();
  EXPECT_EQ(gone_count(), 0U);
}

TEST_F(ServerTest, ShutdownWithoutClientsIsDoneAtOnce) {
  start();
  std::promise<void> done;
  on_loop(
      [&](Server& server) { server.shutdown(std::chrono::hours(1), [&] { done.set_value(); }); });
  done.get_future().wait();
}

TEST_F(ServerTest, ShutdownCutsWhatIsNotDoneInTime) {
  start();
  RawClient waiting = connect();
  waiting.send(get("/hold"));
  const ConnectionId id = next_held().connection;
  std::promise<std::size_t> gone_before_done;
  on_loop([&](Server& server) {
    server.shutdown(std::chrono::milliseconds(10),
                    [&] { gone_before_done.set_value(gone_count()); });
  });
  EXPECT_EQ(waiting.read_to_end(), "");
  EXPECT_EQ(next_gone(), id);
  EXPECT_EQ(gone_before_done.get_future().get(), 1U);
}

TEST_F(ServerTest, ADestroyedServerClosesInSilence) {
  start();
  RawClient waiting = connect();
  waiting.send(get("/hold"));
  next_held();
  stop();
  EXPECT_EQ(waiting.read_to_end(), "");
  EXPECT_EQ(gone_count(), 0U);
}

}  // namespace
}  // namespace andiron::api
