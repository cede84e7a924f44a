// SPDX-License-Identifier: MIT
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/component/api/server_fixture.hpp"

namespace andiron::api {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServerLimitsTest : public ServerFixture {};

TEST_F(ServerLimitsTest, RefusesALargeBodyInWords) {
  start();
  RawClient client = connect();
  // More than the socket holds: this only returns because the server reads on while it refuses.
  EXPECT_TRUE(client.send(post("/echo", std::string(1'000'000, 'x'))));
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(all, HasSubstr("\"code\":\"too_large\""));
}

TEST_F(ServerLimitsTest, TakesSixtyFourKibibytes) {
  start();
  RawClient client = connect();
  EXPECT_EQ(ask(client, post("/echo", std::string(65'000, 'x'))).body.size(), 65'000U);
  client.send("GET / HTTP/1.1\r\nX: " + std::string(66'000, 'x'));
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(ServerLimitsTest, CutsASlowRequest) {
  start({.request_deadline = milliseconds(50)});
  RawClient client = connect();
  // A byte now and then earns no more time; the send fails once the server has closed.
  client.send("GET / HTTP/1.1\r\nX: ");
  while (client.send("x") && !client.has_input())
    on_loop([](Server&) {});
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(all, HasSubstr("\"code\":\"timeout\""));
  wait_for_connections(0);
}

TEST_F(ServerLimitsTest, CutsASlowBody) {
  start({.request_deadline = milliseconds(50)});
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx");
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerLimitsTest, ClosesAnIdleConnection) {
  start({.idle_deadline = milliseconds(50)});
  RawClient fresh = connect();
  RawClient used = connect();
  EXPECT_EQ(ask(used, post("/echo", "x")).body, "x");
  EXPECT_EQ(fresh.read_to_end(), "");
  EXPECT_EQ(used.read_to_end(), "");
}

TEST_F(ServerLimitsTest, AnAnswerThatTakesLongIsNotIdle) {
  start({.request_deadline = milliseconds(50), .idle_deadline = milliseconds(50)});
  RawClient client = connect();
  client.send(get("/hold"));
  const ConnectionId id = next_held().connection;
  RawClient idle = connect();
  EXPECT_EQ(idle.read_to_end(), "");  // so the deadlines have passed
  on_loop([&](Server& server) { server.respond(id, {200, "late", "text/plain", ""}); });
  EXPECT_EQ(client.read_answer().body, "late");
}

TEST_F(ServerLimitsTest, CutsAReaderThatStopsReadingItsAnswer) {
  start({.idle_deadline = milliseconds(50)});
  RawClient client = connect();
  client.send(get("/big?n=50000000"));
  on_loop([](Server&) {});
  wait_for_connections(0);
  EXPECT_LT(client.read_to_end().size(), 50'000'000U);
}

TEST_F(ServerLimitsTest, RefusesOneConnectionTooMany) {
  start({.connections = 3});
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect());
    EXPECT_EQ(ask(clients.back(), post("/echo", "x")).body, "x");
  }
  RawClient refused = connect();
  refused.send(post("/echo", "x"));
  const std::string all = refused.read_to_end();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(all, HasSubstr("\"code\":\"unavailable\""));
  refused.close();
  clients.pop_back();
  wait_for_connections(2);
  RawClient next = connect();
  EXPECT_EQ(ask(next, post("/echo", "room again")).body, "room again");
}

TEST_F(ServerLimitsTest, RefusesAFloodWithoutKeepingIt) {
  start({.connections = 1});
  RawClient first = connect();
  EXPECT_EQ(ask(first, post("/echo", "x")).body, "x");
  std::vector<RawClient> flood;
  for (int i = 0; i < 100; ++i)
    flood.push_back(connect());
  std::size_t told = 0;
  std::size_t most = 0;
  // Accepting them takes several turns of the loop, and so do these.
  for (int i = 0; i < 100; ++i)
    on_loop([&](Server& server) { most = std::max(most, server.connections()); });
  for (RawClient& client : flood)
    told += client.read_to_end().empty() ? 0U : 1U;
  EXPECT_GE(told, 32U);
  EXPECT_LE(most, 33U);
  EXPECT_EQ(ask(first, post("/echo", "still served")).body, "still served");
}

TEST_F(ServerLimitsTest, WaitsWhenFileDescriptorsRunOut) {
  start();
  RawClient before = connect();
  EXPECT_EQ(ask(before, post("/echo", "x")).body, "x");
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd lowest_free(::dup(socket.get()));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t usual = std::exchange(limit.rlim_cur, static_cast<rlim_t>(lowest_free.get()));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  RawClient late(path(), std::move(socket));
  EXPECT_EQ(ask(before, post("/echo", "others are served")).body, "others are served");
  // Each round is one turn of the loop; one that spins on accept(2) takes two.
  const std::size_t turns_before = turns();
  for (int i = 0; i < 200; ++i)
    on_loop([](Server&) {});
  EXPECT_LT(turns() - turns_before, 350U);
  limit.rlim_cur = usual;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ask(late, post("/echo", "at last")).body, "at last");
}

}  // namespace
}  // namespace andiron::api
