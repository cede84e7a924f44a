// SPDX-License-Identifier: MIT
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/api/server.hpp"
#include "tests/component/api/raw_client.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::api {

/// A server on a loop in a thread of its own; the test's thread is the client.
///   POST /echo      answers with the body
///   GET  /big?n=N   answers with N bytes
///   any  /hold      is not answered; a test does that
class ServerFixture : public ::testing::Test {
 public:
  ServerFixture();
  ~ServerFixture() override;

 protected:
  void start(Server::Limits limits = {});
  void stop();  // destroys the server
  std::string path() const;
  RawClient connect() { return RawClient(path()); }

  /// Serves TCP on a port of loopback that the kernel chooses, or elsewhere.
  void start_tcp(std::optional<BearerToken> token = {}, Endpoint at = loopback());
  RawClient connect_tcp() { return RawClient(tcp_); }
  static Endpoint loopback() { return {*IpAddress::parse("127.0.0.1"), 0}; }

  /// Runs this on the loop, and waits for it.
  void on_loop(const std::function<void(Server&)>& task);
  /// Handlers that the loop has run so far.
  std::size_t turns() const;
  /// Waits for the next /hold, or the next on_gone.
  Request next_held();
  ConnectionId next_gone();
  std::size_t gone_count();
  /// Waits until the server has exactly so many connections.
  void wait_for_connections(std::size_t count);
  /// Sends a request and reads its answer.
  static Answer ask(RawClient& client, const std::string& request);

  testing::TempDir dir_;
  bool group_missing_ = false;
  Endpoint tcp_;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

std::string get(const std::string& target);
std::string post(const std::string& target, const std::string& body);

}  // namespace andiron::api
