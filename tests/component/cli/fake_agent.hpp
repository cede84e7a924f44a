// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/base/unique_fd.hpp"

namespace andiron::testing {

/// A request as the fake agent read it.
struct SeenRequest {
  std::string line;     // "POST /v1/warm HTTP/1.1"
  std::string headers;  // as sent, with the blank line
  std::string body;
};

/// What a script does with one connection. Everything is bytes: a fake that used the real server's
/// code would share its faults.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  /// Writes all of it; nothing where the client is gone.
  void send(std::string_view bytes);
  /// One write a byte.
  void send_slowly(std::string_view bytes);
  /// A chunk of the chunked encoding.
  void send_chunk(std::string_view bytes);
  void begin_chunked(int status = 200, std::string_view type = "application/x-ndjson");
  void end_chunks();
  void respond(int status, std::string_view body);
  /// Until the client closes its end, or ten seconds.
  void wait_for_hang_up();

 private:
  int fd_;
};

/// An agent that does what a script says, on a real socket. One thread; connections one after the
/// other, except that a script may wait for another connection's request by seen().
class FakeAgent {
 public:
  using Script = std::function<void(const SeenRequest&, Peer&)>;

  explicit FakeAgent(Script script);
  ~FakeAgent();

  std::string socket() const { return folder_ + "/s"; }
  /// The requests so far; waits (ten seconds at most) until there are `count`.
  std::vector<SeenRequest> seen(std::size_t count);

 private:
  void serve();
  void handle(int fd);

  std::string
      folder_;  // in /tmp: a socket's path has 107 bytes at most, and build folders are deep
  Script script_;
  UniqueFd listener_;
  UniqueFd stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<SeenRequest> seen_;
  std::vector<std::thread> handlers_;
  std::thread thread_;
};

}  // namespace andiron::testing
