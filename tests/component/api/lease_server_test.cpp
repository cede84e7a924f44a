// SPDX-License-Identifier: MIT
#include "agent/api/lease_server.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "agent/api/lease_packet.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::api {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr const char* kNoGroup = "andiron-test-no-such-group";

/// The server and its clients take turns on one thread.
class LeaseServerTest : public ::testing::Test {
 protected:
  void start(LeaseServer::Limits limits = {}) {
    LeaseServer::Callbacks callbacks;
    callbacks.on_request = [this](LeaseClientId client, os::Reader, LeaseRequest request) {
      asked_.emplace_back(client, std::move(request));
    };
    callbacks.on_gone = [this](LeaseClientId client) { gone_.push_back(client); };
    callbacks.discard = [this](uid_t, std::vector<UniqueFd> fds) { discarded_ += fds.size(); };
    callbacks.is_behind = [this](std::optional<uid_t>) { return behind_; };
    server_.emplace(loop_, limits, std::move(callbacks));
    const auto listening = server_->listen(path(), kNoGroup, true);
    ASSERT_TRUE(listening) << listening.error().message();
  }
  std::string path() const { return (dir_ / "lease.sock").string(); }

  UniqueFd connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0)
        << std::strerror(errno);
    return fd;
  }
  void turn() {
    loop_.restart();
    loop_.poll();
  }
  template <class Done>
  void until(Done done) {
    for (int i = 0; i < 2000 && !done(); ++i) {
      loop_.restart();
      loop_.run_for(5ms);
    }
    ASSERT_TRUE(done());
  }
  /// The next packet; null when the server has hung up.
  json receive(const UniqueFd& fd, std::vector<UniqueFd>* fds = nullptr) {
    std::vector<char> buffer;
    Received received;
    for (int i = 0; i < 2000; ++i) {
      turn();
      received = receive_packet(fd.get(), buffer);
      if (received.kind != Received::Kind::nothing) break;
      loop_.restart();
      loop_.run_for(5ms);
    }
    EXPECT_NE(received.kind, Received::Kind::nothing);
    if (received.kind == Received::Kind::end) return nullptr;
    if (fds != nullptr) *fds = std::move(received.packet.fds);
    return json::parse(received.packet.text);
  }
  static void send(const UniqueFd& fd, const std::string& text) {
    ASSERT_EQ(send_packet(fd.get(), {text, {}}), Sent::whole);
  }
  static UniqueFd some_fd() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  testing::TempDir dir_;
  boost::asio::io_context loop_{1};
  std::vector<std::pair<LeaseClientId, LeaseRequest>> asked_;
  std::vector<LeaseClientId> gone_;
  std::size_t discarded_ = 0;
  bool behind_ = false;
  std::optional<LeaseServer> server_;
};

const std::string kAsk = R"({"op":"lease","model":"m","wait_ms":1500})";

TEST_F(LeaseServerTest, SaysHelloHandsTheRequestOverAndGrants) {
  start();
  const UniqueFd client = connect();
  EXPECT_EQ(receive(client)["op"], "hello");
  send(client, kAsk);
  until([&] { return asked_.size() == 1; });
  EXPECT_EQ(asked_[0].second.model, "m");
  EXPECT_EQ(asked_[0].second.wait, 1500ms);
  EXPECT_FALSE(asked_[0].second.source);
  LeaseGrant grant{7, 3, "m", Tier::pinned_ram, 42, {}};
  grant.fds.push_back(some_fd());
  server_->grant(asked_[0].first, std::move(grant));
  // Only what we leave of it: receive_packet has room for a request's one descriptor and some more.
  std::vector<UniqueFd> fds;
  EXPECT_EQ(receive(client, &fds), json({{"op", "granted"},
                                         {"lease", 7},
                                         {"generation", 3},
                                         {"model", "m"},
                                         {"tier", "pinned-ram"},
                                         {"bytes", 42},
                                         {"fds", 1},
                                         {"more", false}}));
  EXPECT_EQ(fds.size(), 1U);
  server_->revoke(asked_[0].first, "dropped", 5s);
  EXPECT_EQ(receive(client),
            json({{"op", "revoke"}, {"reason", "dropped"}, {"deadline_ms", 5000}}));
  EXPECT_TRUE(gone_.empty());
}

TEST_F(LeaseServerTest, GivesManyDescriptorsInSeveralPackets) {
  LeaseGrant grant;
  for (int i = 0; i < 150; ++i)
    grant.fds.push_back(some_fd());
  const std::vector<LeasePacket> packets = granted_packets(std::move(grant));
  ASSERT_EQ(packets.size(), 3U);
  EXPECT_EQ(packets[0].fds.size(), 64U);
  EXPECT_EQ(json::parse(packets[0].text)["more"], true);
  EXPECT_EQ(json::parse(packets[1].text), json({{"op", "fds"}, {"fds", 64}, {"more", true}}));
  EXPECT_EQ(json::parse(packets[2].text), json({{"op", "fds"}, {"fds", 22}, {"more", false}}));
}

TEST_F(LeaseServerTest, TellsOfTheEndOfWhatWasAskedFor) {
  start();
  UniqueFd client = connect();
  const UniqueFd silent = connect();
  receive(client);
  send(client, kAsk);
  until([&] { return asked_.size() == 1; });
  client.reset();
  until([&] { return gone_.size() == 1; });
  EXPECT_EQ(gone_[0], asked_[0].first);
  EXPECT_EQ(server_->connections(), 1U);
  server_->grant(gone_[0], {});  // too late, and nothing to it
  server_->refuse(gone_[0], make_error(Errc::timeout, ""));
}

TEST_F(LeaseServerTest, MayBeAskedAgainAfterARefusalAndNotForEver) {
  LeaseServer::Limits limits;
  limits.requests = 2;
  start(limits);
  const UniqueFd client = connect();
  receive(client);
  for (std::size_t i = 1; i <= 2; ++i) {
    send(client, kAsk);
    until([&] { return asked_.size() == i; });
    server_->refuse(asked_.back().first, make_error(Errc::no_budget, "full"));
    const json refused = receive(client);
    EXPECT_EQ(refused["op"], "refused");
    EXPECT_EQ(refused["code"], "no_budget");
  }
  send(client, kAsk);
  EXPECT_EQ(receive(client)["code"], "bad_request");
  EXPECT_EQ(receive(client), nullptr);
}

TEST_F(LeaseServerTest, HangsUpOnWhoAsksTwiceAtATime) {
  start();
  const UniqueFd client = connect();
  receive(client);
  send(client, kAsk);
  send(client, kAsk);
  EXPECT_EQ(receive(client)["code"], "bad_request");
  EXPECT_EQ(receive(client), nullptr);
  until([&] { return gone_.size() == 1; });  // of the first
}

TEST_F(LeaseServerTest, ClosesDescriptorsThatNobodyAskedFor) {
  start();
  const UniqueFd client = connect();
  receive(client);
  LeasePacket packet{kAsk, {}};
  packet.fds.push_back(some_fd());
  ASSERT_EQ(send_packet(client.get(), packet), Sent::whole);
  EXPECT_EQ(receive(client)["code"], "bad_request");
  EXPECT_EQ(discarded_, 2U);  // and the connection, in which more may be
  EXPECT_TRUE(asked_.empty());
}

TEST_F(LeaseServerTest, HangsUpOnWhoDoesNotAsk) {
  LeaseServer::Limits limits;
  limits.idle = 20ms;
  start(limits);
  const UniqueFd idle = connect();
  const UniqueFd asking = connect();
  receive(idle);
  receive(asking);
  send(asking, kAsk);
  until([&] { return asked_.size() == 1; });
  EXPECT_EQ(receive(idle), nullptr);
  EXPECT_EQ(server_->connections(), 1U);
}

TEST_F(LeaseServerTest, TurnsAwayWhoIsTooMany) {
  LeaseServer::Limits limits;
  limits.connections = 2;
  start(limits);
  const UniqueFd one = connect();
  UniqueFd two = connect();
  const UniqueFd three = connect();
  EXPECT_EQ(receive(one)["op"], "hello");
  EXPECT_EQ(receive(three)["code"], "unavailable");
  EXPECT_EQ(receive(three), nullptr);
  two.reset();
  until([&] { return server_->connections() == 1; });
  const UniqueFd four = connect();
  EXPECT_EQ(receive(four)["op"], "hello");
}

TEST_F(LeaseServerTest, DropsWhoDoesNotRead) {
  LeaseServer::Limits limits;
  limits.backlog = 4;
  start(limits);
  const UniqueFd client = connect();
  receive(client);
  send(client, kAsk);
  until([&] { return asked_.size() == 1; });
  server_->grant(asked_[0].first, {});
  for (int i = 0; i < 10000 && server_->connections() == 1; ++i)
    server_->revoke(asked_[0].first, std::string(1000, 'r'), 1s);
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(LeaseServerTest, EndsWithItsClientsAndItsName) {
  start();
  const UniqueFd client = connect();
  receive(client);
  send(client, kAsk);
  until([&] { return asked_.size() == 1; });
  server_.reset();
  turn();
  EXPECT_TRUE(gone_.empty());
  EXPECT_NE(::access(path().c_str(), F_OK), 0);
}

TEST(LeaseRequest, KeepsToTheProtocol) {
  const auto parse = [](const char* text, std::size_t fds) {
    return parse_lease_request(text, fds, 1h);
  };
  EXPECT_TRUE(parse(R"({"op":"lease","model":"m"})", 0));
  EXPECT_TRUE(parse(R"({"op":"lease","source_fd":0})", 1));
  EXPECT_TRUE(parse(R"({"op":"lease","model":"m","tier":"vram","gpu":"GPU-1",
                        "transports":["vmm-fd"]})",
                    0));
  EXPECT_EQ(parse(R"({"op":"lease","model":"m","wait_ms":99999999999})", 0).value().wait, 1h);
  for (const char* bad :
       {"", "{}", "[]", "null", R"({"op":"lease"})", R"({"op":"lease","model":""})",
        R"({"op":"lease","model":"m","source_fd":0})", R"({"op":"lease","model":7})",
        R"({"op":"lease","model":"m","tier":"disk"})", R"({"op":"lease","model":"m","wait_ms":-1})",
        R"({"op":"lease","model":"m","wait_ms":1.5})", R"({"op":"lease","model":"m","modle":1})",
        R"({"op":"revoke","model":"m"})", R"({"op":"lease","model":"a\u0000b"})"}) {
    const auto request = parse(bad, 0);
    ASSERT_FALSE(request) << bad;
    EXPECT_EQ(request.error().errc(), Errc::bad_request) << bad;
  }
  EXPECT_FALSE(parse(R"({"op":"lease","model":"m"})", 1));
  EXPECT_FALSE(parse(R"({"op":"lease","source_fd":0})", 0));
  EXPECT_FALSE(parse(R"({"op":"lease","source_fd":0})", 2));
  EXPECT_FALSE(parse(R"({"op":"lease","source_fd":1})", 1));
}

}  // namespace
}  // namespace andiron::api
