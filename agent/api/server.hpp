// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/api/bearer_token.hpp"
#include "agent/base/ip_address.hpp"
#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/peer.hpp"

namespace boost::asio {
class io_context;
}

namespace andiron::api {

using ConnectionId = std::uint64_t;

/// A request that kept HTTP's rules and our limits. The target is split and percent-decoded.
struct Request {
  ConnectionId connection = 0;
  std::string method;  // "GET", "POST", "DELETE"
  std::string path;    // "/v1/models/a%2Fb/warm" is {"v1","models","a/b","warm"} below
  std::vector<std::string> segments;
  std::map<std::string, std::string> query;
  std::string body;
  bool accepts_ndjson = false;   // Accept: application/x-ndjson
  std::optional<os::Peer> peer;  // nullopt: over TCP
};

/// The bytes of an answer. They never change and are shared, so that many are sent the same ones.
class Body {
 public:
  Body() = default;
  Body(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  Body(const char* text) : Body(std::string(text)) {}

  std::string_view text() const noexcept { return text_ ? *text_ : std::string_view(); }

 private:
  std::shared_ptr<const std::string> text_;
};

struct Response {
  unsigned status = 200;
  Body body;
  std::string content_type = "application/json";
  std::string allow;  // the Allow header, which a 405 must have: "GET, POST"
  std::vector<std::pair<std::string, std::string>> headers = {};  // more of them
};

/// `{"error":{"code":...,"message":...}}` with the status that fits the code.
Response error_response(const Error& error);
unsigned http_status(Errc code) noexcept;

/// HTTP/1.1 with keep-alive on a Unix stream socket, and on TCP where told to; 1.0 too. Each
/// request is answered once, now or later, by respond(), or by a stream of NDJSON lines (chunked):
/// begin_stream(), write_line()..., end_stream(). Requests of one connection are handed over one at
/// a time, in order. A connection that went away makes the answers do nothing. A request that
/// breaks HTTP or a limit is answered here and never handed over.
///
/// Gone means closed: a client that only shut down its sending side still gets its answer; over
/// TCP, which cannot tell the two apart, it does not.
///
/// Over TCP, a request is handed over only where access.hpp allows it: reading on loopback, or with
/// the bearer token. No page of another site gets anything.
///
/// Limits: 64 KiB a request (header and body), 256 connections (streams counted apart, 256 of
/// them; one too many gets 503; TCP has 64 of each of its own, which takes none from others), 10 s
/// from a request's first byte to its last, 60 s idle or without progress in writing, 1 MiB of
/// unread lines a stream (then it is cut: a slow reader holds nobody up). Thread: the loop's. Never
/// blocks. Owns: its sockets, and the socket's name. Destroy it before the loop's io_context and
/// not from a callback; no callback runs after that.
class Server {
 public:
  struct Limits {
    std::size_t request_bytes = 64 * 1024;
    std::size_t connections = 256;
    std::size_t streams = 256;
    std::size_t tcp_connections = 64;
    std::size_t tcp_streams = 64;
    std::size_t stream_backlog = 1024 * 1024;
    std::chrono::milliseconds request_deadline{10'000};
    std::chrono::milliseconds idle_deadline{60'000};
  };
  struct Callbacks {
    std::function<void(Request)> on_request;
    /// The peer is gone, or its stream was cut or refused. Once for each request that was handed
    /// over and whose answer was not finished by then. Called from the loop, never from within one
    /// of the functions below.
    std::function<void(ConnectionId)> on_gone;
  };

  Server(boost::asio::io_context& loop, Limits limits, Callbacks callbacks);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Binds and listens, once: a stale socket file is replaced (the caller holds the runtime
  /// folder's lock, so nobody else listens there), mode 0660, group `group`. Where that group does
  /// not exist, or may not be given to the file, mode 0600 and group_missing().
  /// Errors: a path that is too long for a socket; something else than a socket in its place.
  Result<void> listen(const std::string& socket_path, const std::string& group);
  /// Instead of listen(): serves a listening, non-blocking Unix stream socket that a service
  /// manager made and keeps. Its file, with owner and mode, is the manager's: nobody here unlinks
  /// it or makes it anew.
  Result<void> adopt(UniqueFd listening, const std::string& group);
  bool group_missing() const noexcept;
  /// Once it listens, now and then: where the socket's name was removed or replaced, binds it anew,
  /// as listen() does. True when it had to. Connections stay as they are.
  Result<bool> restore_name();

  /// After listen(): serves TCP there too, instead of where it did before, and gives the port,
  /// which the kernel chooses for port 0. Called again with nothing new, it changes nothing; with
  /// another token, what was opened under the old one ends. nullopt: nobody may do more than read,
  /// and then `at` has to be on loopback. Errors: bind's own; it serves no TCP then.
  Result<std::uint16_t> listen_tcp(const Endpoint& at, std::optional<BearerToken> token);
  /// Streams end, answers in progress are given.
  void close_tcp();

  void respond(ConnectionId connection, Response response);
  /// `backlog` are whole lines, each with its newline, that are there already. Their size is the
  /// caller's to bound: they do not count against stream_backlog, which a burst of write_line()
  /// does. Past the limit of streams it answers 503, and on_gone follows.
  void begin_stream(ConnectionId connection, unsigned status = 200, std::string backlog = {});
  void write_line(ConnectionId connection, std::string line);  // without its newline
  void end_stream(ConnectionId connection);

  /// Stops accepting, closes idle connections, gives answers in progress until the deadline, then
  /// closes the rest and calls `done`, after the on_gone of those. Unlinks the socket. A stream has
  /// no end of its own: who wants to be done earlier ends it.
  void shutdown(std::chrono::milliseconds deadline, std::function<void()> done);

  /// All that are open, streams and those being refused included.
  std::size_t connections() const noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace andiron::api
