// SPDX-License-Identifier: MIT
// Of the server's own; it is the only header here that shows Asio.
#pragma once

#include <utility>  // first: Boost 1.74 needs it in C++20
// clang-format off
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
// clang-format on

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "agent/api/request_reader.hpp"
#include "agent/api/server.hpp"
#include "agent/base/ip_address.hpp"

namespace andiron::api {

/// Who is at the other end: a process of this machine on a Unix socket, an address over TCP.
using Caller = std::variant<os::Peer, IpAddress>;

/// One client. It reads all the time, also while an answer is pending: that is how it sees that
/// the client went away. Bytes of later requests wait in the reader until it is their turn.
///
///   reading --request--> awaiting --respond--> answering --written--> reading, or closed
///                            \--begin_stream--> streaming --end_stream--> answering
///   a broken request: answering --written--> lingering --> closed
///
/// Thread: the loop's. Never blocks. Owns: its socket. Kept alive by its pending operations; after
/// close() those find it closed and do nothing.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Hooks {
    std::function<void(Request)> on_request;
    /// Asked before on_request of what came over TCP: an answer that is given instead.
    std::function<std::optional<Response>(const IpAddress&, const ParsedRequest&)> refuse;
    /// The last call. `unfinished`: a request was handed over and its answer is not complete.
    std::function<void(ConnectionId, bool unfinished)> on_closed;
  };

  /// `hooks` must live until on_closed was called, or silence().
  Connection(boost::asio::io_context& loop, boost::asio::generic::stream_protocol::socket socket,
             ConnectionId id, Caller caller, const Server::Limits& limits, const Hooks& hooks);

  void start();
  /// Answers before anything was asked, and closes.
  void refuse(const Response& response);

  void respond(Response response);
  void begin_stream(unsigned status, std::string_view backlog);
  void write_line(std::string_view line);
  void end_stream();

  /// Whether a request was handed over and waits for its answer to begin.
  bool awaits_answer() const noexcept { return state_ == State::awaiting; }
  bool streams() const noexcept { return state_ == State::streaming; }
  /// Closes after the answer in progress, or now if there is none.
  void finish_soon();
  void close();
  /// Closes without calling the hooks.
  void silence();

 private:
  enum class State { reading, awaiting, answering, streaming, lingering, closed };
  enum class Deadline { none, idle, request, write, linger };

  void read_more();
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  void on_end_of_input();
  void watch_hangup();
  bool hung_up();
  void advance();
  void hand_over(ParsedRequest parsed);
  void fail(const Response& response);

  void send(std::string_view bytes);
  void send_chunk(std::string_view lines);
  void write_more();
  void on_written(const boost::system::error_code& error);
  void after_answer();
  std::string head(unsigned status, std::string_view content_type);

  void set_deadline(Deadline deadline);
  void on_deadline();

  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  const ConnectionId id_;
  const Caller caller_;
  const Server::Limits limits_;
  const Hooks* hooks_;

  State state_ = State::reading;
  RequestReader reader_;
  std::array<char, 8192> input_{};
  bool reading_ = false;   // a read is pending
  bool watching_ = false;  // a wait for hang-up is pending
  bool end_of_input_ = false;
  bool discard_input_ = false;

  // Of the request being answered.
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool linger_ = false;

  std::string output_;                 // waits for the write in flight
  Body body_;                          // comes after it
  std::string in_flight_;              // being written; empty when none is
  Body body_in_flight_;                // comes after it
  std::size_t counted_in_flight_ = 0;  // of it, what counts against the stream's backlog
  std::size_t uncounted_ = 0;          // of output_, what does not

  Deadline deadline_ = Deadline::none;
  std::uint64_t deadline_round_ = 0;  // tells a timer's last word from an older one's
};

}  // namespace andiron::api
