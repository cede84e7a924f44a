// SPDX-License-Identifier: MIT
#include <future>
#include <string>
#include <vector>

#include "agent/api/tcp_socket.hpp"
#include "tests/component/api/server_fixture.hpp"

namespace andiron::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kSecret = "0123456789abcdef";

BearerToken token(const std::string& text = kSecret) { return *BearerToken::parse(text); }

std::string with_headers(const std::string& method, const std::string& target,
                         const std::string& headers, const std::string& body = "") {
  return method + " " + target + " HTTP/1.1\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const std::string kHost = "Host: localhost\r\n";
const std::string kRight = kHost + "Authorization: Bearer " + kSecret + "\r\n";
const std::string kWrong = kHost + "Authorization: Bearer 0123456789abcdeX\r\n";

class ServerTcpTest : public ServerFixture {
 protected:
  static Answer post_echo(RawClient& client, const std::string& headers) {
    return ask(client, with_headers("POST", "/echo", headers, "hello"));
  }
  ConnectionId hold(RawClient& client, const std::string& headers = kHost) {
    EXPECT_TRUE(client.send(with_headers("GET", "/hold", headers)));
    return next_held().connection;
  }
};

TEST_F(ServerTcpTest, ReadsOnLoopback) {
  start();
  start_tcp();
  RawClient client = connect_tcp();
  const Answer answer = ask(client, with_headers("GET", "/big?n=3", kHost));
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(answer.body, "bbb");
  EXPECT_THAT(answer.head, Not(HasSubstr("Access-Control")));
  const Answer refused = post_echo(client, kHost);
  EXPECT_EQ(refused.status, 403U);
  EXPECT_THAT(refused.head, HasSubstr("403 Forbidden"));
  EXPECT_THAT(refused.body, HasSubstr("\"permission_denied\""));
  EXPECT_EQ(ask(client, with_headers("DELETE", "/echo", kHost)).status, 403U);
  EXPECT_EQ(ask(client, with_headers("GET", "/big?n=1", kHost)).body, "b");  // the same connection
}

TEST_F(ServerTcpTest, WorksOnIpv6) {
  const Endpoint at{*IpAddress::parse("::1"), 0};
  if (!listen_on(at)) GTEST_SKIP() << "no IPv6 here";
  start();
  start_tcp({}, at);
  RawClient client = connect_tcp();
  EXPECT_EQ(ask(client, with_headers("GET", "/big?n=3", "Host: [::1]:9479\r\n")).body, "bbb");
}

TEST_F(ServerTcpTest, NobodyIsAPeerThere) {
  start();
  start_tcp();
  RawClient client = connect_tcp();
  client.send(with_headers("GET", "/hold", kHost));
  EXPECT_FALSE(next_held().peer);
}

TEST_F(ServerTcpTest, TheTokenOpensEveryCall) {
  start();
  start_tcp(token());
  RawClient client = connect_tcp();
  EXPECT_EQ(post_echo(client, kRight).body, "hello");
  const Answer missing = post_echo(client, kHost);
  EXPECT_EQ(missing.status, 401U);
  EXPECT_THAT(missing.head, HasSubstr("\r\nWWW-Authenticate: Bearer realm=\"andiron\"\r\n"));
  const Answer wrong = post_echo(client, kWrong);
  EXPECT_EQ(wrong.status, 401U);
  EXPECT_THAT(wrong.head, HasSubstr("error=\"invalid_token\"\r\n"));
  EXPECT_THAT(wrong.head + wrong.body, Not(HasSubstr("012345")));
  EXPECT_EQ(ask(client, with_headers("GET", "/big?n=1", kHost)).status, 200U);
}

TEST_F(ServerTcpTest, TellsWhoGuessesToWait) {
  start();
  start_tcp(token());
  RawClient client = connect_tcp();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(post_echo(client, kWrong).status, 401U);
  const Answer answer = post_echo(client, kWrong);
  EXPECT_THAT(answer.head, StartsWith("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_THAT(answer.head, HasSubstr("\r\nRetry-After: "));
  EXPECT_EQ(post_echo(client, kRight).status, 200U);
}

TEST_F(ServerTcpTest, RefusesPagesOfOtherSites) {
  start();
  start_tcp(token());
  RawClient client = connect_tcp();
  EXPECT_EQ(ask(client, with_headers("GET", "/big?n=1", "Host: evil.example\r\n")).status, 403U);
  EXPECT_EQ(ask(client, with_headers("GET", "/big?n=1", "")).status, 403U);
  EXPECT_EQ(post_echo(client, kRight + "Origin: http://evil.example\r\n").status, 403U);
  EXPECT_EQ(post_echo(client, kRight + "Origin: http://localhost\r\n").status, 200U);
  const Answer preflight = ask(client, with_headers("OPTIONS", "/echo", kHost));
  EXPECT_EQ(preflight.status, 401U);
  EXPECT_THAT(preflight.head, Not(HasSubstr("Access-Control")));
}

TEST_F(ServerTcpTest, TakesNoneOfThemTwice) {
  start();
  start_tcp(token());
  for (const std::string& header :
       {std::string("Host: localhost\r\n"), "Authorization: Bearer " + kSecret + "\r\n",
        std::string("Origin: http://localhost\r\n")}) {
    RawClient client = connect_tcp();
    client.send(with_headers("POST", "/echo", header + header));
    EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 400 ")) << header;
  }
}

TEST_F(ServerTcpTest, ItsClientsStarveNobody) {
  start({.connections = 2, .tcp_connections = 2});
  start_tcp();
  std::vector<RawClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(connect_tcp());
    EXPECT_EQ(ask(clients.back(), with_headers("GET", "/big?n=1", kHost)).status, 200U);
  }
  RawClient refused = connect_tcp();
  EXPECT_THAT(refused.read_to_end(), StartsWith("HTTP/1.1 503 "));
  for (int i = 0; i < 2; ++i) {
    clients.push_back(connect());
    EXPECT_EQ(ask(clients.back(), post("/echo", "x")).body, "x");
  }
}

TEST_F(ServerTcpTest, HasStreamsOfItsOwn) {
  start({.streams = 1, .tcp_streams = 1});
  start_tcp();
  RawClient first = connect_tcp();
  RawClient second = connect_tcp();
  RawClient local = connect();
  const ConnectionId one = hold(first);
  on_loop([&](Server& server) { server.begin_stream(one); });
  EXPECT_THAT(first.read_head(), StartsWith("HTTP/1.1 200 "));
  const ConnectionId two = hold(second);
  on_loop([&](Server& server) { server.begin_stream(two); });
  EXPECT_EQ(second.read_answer().status, 503U);
  EXPECT_EQ(next_gone(), two);
  local.send(get("/hold"));
  const ConnectionId three = next_held().connection;
  on_loop([&](Server& server) { server.begin_stream(three); });
  EXPECT_THAT(local.read_head(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTcpTest, AClientThatEndsIsGone) {
  start();
  start_tcp();
  RawClient client = connect_tcp();
  const ConnectionId id = hold(client);
  on_loop([&](Server& server) { server.begin_stream(id); });
  client.close();
  EXPECT_EQ(next_gone(), id);
  RawClient half = connect_tcp();
  const ConnectionId other = hold(half);
  half.half_close();
  EXPECT_EQ(next_gone(), other);
  wait_for_connections(0);
}

TEST_F(ServerTcpTest, KeepsTheLimitsOfTheControlSocket) {
  start({.request_deadline = std::chrono::milliseconds(50)});
  start_tcp();
  RawClient large = connect_tcp();
  large.send(with_headers("GET", "/", kHost + "X: " + std::string(70'000, 'x') + "\r\n"));
  EXPECT_THAT(large.read_to_end(), StartsWith("HTTP/1.1 431 "));
  RawClient slow = connect_tcp();
  slow.send("GET / HTTP/1.1\r\nHost:");
  EXPECT_THAT(slow.read_to_end(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerTcpTest, SaysThatAPortIsTaken) {
  start();
  start_tcp();
  const auto taken = [&] {
    std::string why;
    on_loop([&](Server& server) {
      const auto again = server.listen_tcp(tcp_, {});
      why = again ? "" : again.error().message();
    });
    return why;
  };
  EXPECT_EQ(taken(), "");  // it is ours
  on_loop([](Server& server) { server.close_tcp(); });
  const auto other = listen_on(tcp_);
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_THAT(taken(), HasSubstr("listen on " + tcp_.to_string() + ": Address already in use"));
}

TEST_F(ServerTcpTest, MovesAndCloses) {
  start();
  start_tcp();
  RawClient idle = connect_tcp();
  EXPECT_EQ(ask(idle, with_headers("GET", "/big?n=1", kHost)).status, 200U);
  RawClient waiting = connect_tcp();
  const ConnectionId held = hold(waiting);
  RawClient follower = connect_tcp();
  const ConnectionId stream = hold(follower);
  on_loop([&](Server& server) { server.begin_stream(stream); });
  follower.read_head();
  RawClient local = connect();
  EXPECT_EQ(ask(local, post("/echo", "x")).body, "x");
  const Endpoint before = tcp_;
  start_tcp({}, {*IpAddress::parse("127.0.0.2"), 0});
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(next_gone(), stream);
  on_loop([&](Server& server) { server.respond(held, {200, "last", "text/plain", ""}); });
  EXPECT_EQ(waiting.read_answer().body, "last");
  EXPECT_EQ(waiting.read_to_end(), "");
  EXPECT_TRUE(listen_on(before));  // nobody has it now
  RawClient moved = connect_tcp();
  EXPECT_EQ(ask(moved, with_headers("GET", "/big?n=1", kHost)).status, 200U);
  on_loop([](Server& server) { server.close_tcp(); });
  EXPECT_EQ(moved.read_to_end(), "");
  EXPECT_EQ(ask(local, post("/echo", "still here")).body, "still here");
}

TEST_F(ServerTcpTest, ANewTokenEndsWhatTheOldOneOpened) {
  start();
  start_tcp(token());
  RawClient follower = connect_tcp();
  const ConnectionId id = hold(follower, kRight);
  on_loop([&](Server& server) { server.begin_stream(id); });
  follower.read_head();
  start_tcp(token(), tcp_);  // nothing new
  on_loop([&](Server& server) { server.write_line(id, "line"); });
  EXPECT_EQ(follower.read_chunk(), "line\n");
  start_tcp(token("fedcba9876543210"), tcp_);
  EXPECT_EQ(next_gone(), id);
  RawClient client = connect_tcp();
  EXPECT_EQ(post_echo(client, kRight).status, 401U);
  EXPECT_EQ(post_echo(client, kHost + "Authorization: Bearer fedcba9876543210\r\n").status, 200U);
}

TEST_F(ServerTcpTest, ShutdownEndsItToo) {
  start();
  start_tcp();
  RawClient idle = connect_tcp();
  EXPECT_EQ(ask(idle, with_headers("GET", "/big?n=1", kHost)).status, 200U);
  std::promise<void> done;
  on_loop(
      [&](Server& server) { server.shutdown(std::chrono::hours(1), [&] { done.set_value(); }); });
  EXPECT_EQ(idle.read_to_end(), "");
  done.get_future().wait();
  EXPECT_TRUE(listen_on(tcp_));
}

}  // namespace
}  // namespace andiron::api
