// SPDX-License-Identifier: MIT
#include "agent/api/connection.hpp"

// clang-format off
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
// clang-format on

#include <fmt/format.h>
#include <poll.h>

#include <iterator>
#include <optional>

namespace andiron::api {
namespace {

using boost::system::error_code;

// How long a client that was told off may go on sending before we close on it. Without this pause
// its send would fail before it read our answer; a local client needs milliseconds.
constexpr std::chrono::milliseconds kLinger{1000};

std::string_view reason_of(unsigned status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";  // the phrase means nothing to a client
  }
}

}  // namespace

Connection::Connection(boost::asio::io_context& loop,
                       boost::asio::generic::stream_protocol::socket socket, ConnectionId id,
                       Caller caller, const Server::Limits& limits, const Hooks& hooks)
    : socket_(std::move(socket)),
      timer_(loop),
      id_(id),
      caller_(caller),
      limits_(limits),
      hooks_(&hooks),
      reader_(limits.request_bytes) {}

void Connection::start() {
  advance();
  read_more();
}

void Connection::refuse(const Response& response) {
  fail(response);
  read_more();
}

// --- Reading -----------------------------------------------------------------------------------

void Connection::read_more() {
  if (state_ == State::closed || reading_ || end_of_input_) return;
  if (!discard_input_ && reader_.buffered() >= limits_.request_bytes) {
    // Enough of later requests; the rest waits in the socket. A hang-up must still be seen.
    watch_hangup();
    return;
  }
  reading_ = true;
  socket_.async_read_some(boost::asio::buffer(input_),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            self->reading_ = false;
                            self->on_read(error, bytes);
                          });
}

void Connection::on_read(const error_code& error, std::size_t bytes) {
  if (state_ == State::closed) return;
  if (error == boost::asio::error::eof) {
    on_end_of_input();
    return;
  }
  if (error) {
    close();
    return;
  }
  if (!discard_input_) {
    reader_.append({input_.data(), bytes});
    advance();
  }
  read_more();
}

void Connection::on_end_of_input() {
  end_of_input_ = true;
  // While reading, what is there is no whole request, and no more will come. A lingering one has
  // nothing left to wait for. Else the client may still want its answer: it is gone when both of
  // its directions are, which a Unix socket tells apart (POLLRDHUP, POLLHUP). TCP does not, before
  // something is sent, and a quiet stream would be kept for nobody: there it is gone now.
  const bool over_tcp = std::holds_alternative<IpAddress>(caller_);
  const bool unanswered = state_ == State::awaiting || state_ == State::streaming;
  if (state_ == State::reading || state_ == State::lingering || (over_tcp && unanswered) ||
      hung_up()) {
    close();
    return;
  }
  watch_hangup();
}

void Connection::watch_hangup() {
  if (watching_ || state_ == State::closed) return;
  watching_ = true;
  socket_.async_wait(boost::asio::socket_base::wait_error,
                     [self = shared_from_this()](const error_code&) {
                       self->watching_ = false;
                       // Asio's wait also ends for urgent data, which no client of ours sends;
                       // waiting again would then spin.
                       self->close();
                     });
}

bool Connection::hung_up() {
  pollfd poll{socket_.native_handle(), 0, 0};
  return ::poll(&poll, 1, 0) == 1 && (poll.revents & (POLLHUP | POLLERR)) != 0;
}

void Connection::advance() {
  while (state_ == State::reading) {
    switch (reader_.step()) {
      case RequestReader::Step::need_more:
        if (end_of_input_) {
          close();
        } else {
          set_deadline(reader_.in_request() ? Deadline::request : Deadline::idle);
        }
        return;
      case RequestReader::Step::send_continue:
        send("HTTP/1.1 100 Continue\r\n\r\n");
        break;
      case RequestReader::Step::failed:
        fail(reader_.failure());
        return;
      case RequestReader::Step::request: {
        ParsedRequest parsed = reader_.take();
        keep_alive_ = parsed.keep_alive;
        http_1_0_ = parsed.http_1_0;
        head_only_ = parsed.request.method == "HEAD";
        parsed.request.connection = id_;
        state_ = State::awaiting;
        set_deadline(Deadline::none);
        hand_over(std::move(parsed));
        return;
      }
    }
  }
}

void Connection::hand_over(ParsedRequest parsed) {
  if (const auto* address = std::get_if<IpAddress>(&caller_)) {
    if (auto refusal = hooks_->refuse(*address, parsed)) return respond(std::move(*refusal));
  } else {
    parsed.request.peer = std::get<os::Peer>(caller_);
  }
  hooks_->on_request(std::move(parsed.request));
}

void Connection::fail(const Response& response) {
  discard_input_ = true;
  keep_alive_ = false;
  linger_ = true;
  head_only_ = false;
  state_ = State::awaiting;
  respond(response);
}

// --- Answering ---------------------------------------------------------------------------------

std::string Connection::head(unsigned status, std::string_view content_type) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nCache-Control: no-store\r\nConnection: {}\r\n", status,
      reason_of(status), content_type, keep_alive_ ? "keep-alive" : "close");
}

void Connection::respond(Response response) {
  if (state_ != State::awaiting) return;
  state_ = State::answering;
  set_deadline(Deadline::write);
  std::string text = head(response.status, response.content_type);
  if (!response.allow.empty()) text += "Allow: " + response.allow + "\r\n";
  for (const auto& [name, value] : response.headers)
    fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  fmt::format_to(std::back_inserter(text), "Content-Length: {}\r\n\r\n",
                 response.body.text().size());
  if (!head_only_) body_ = std::move(response.body);
  send(text);
}

void Connection::begin_stream(unsigned status, std::string_view backlog) {
  if (state_ != State::awaiting) return;
  state_ = State::streaming;
  // HTTP/1.0 has no chunks: the end of the connection is the end of the body. An answer to HEAD has
  // no body, and closing says that best.
  if (http_1_0_ || head_only_) keep_alive_ = false;
  std::string text = head(status, "application/x-ndjson");
  text += http_1_0_ ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n";
  send(text);
  if (!backlog.empty()) send_chunk(backlog);
  uncounted_ = output_.size();
}

void Connection::write_line(std::string_view line) {
  if (state_ != State::streaming) return;
  const std::size_t waiting = output_.size() - uncounted_ + counted_in_flight_;
  if (waiting > limits_.stream_backlog) {
    close();
    return;
  }
  std::string text(line);
  text += '\n';
  send_chunk(text);
}

void Connection::send_chunk(std::string_view lines) {
  if (head_only_) return;
  if (http_1_0_) {
    send(lines);
    return;
  }
  std::string chunk = fmt::format("{:x}\r\n", lines.size());
  chunk += lines;
  chunk += "\r\n";
  send(chunk);
}

void Connection::end_stream() {
  if (state_ != State::streaming) return;
  state_ = State::answering;
  set_deadline(Deadline::write);
  const bool chunked = !http_1_0_ && !head_only_;
  if (chunked) send("0\r\n\r\n");
  if (in_flight_.empty()) after_answer();
}

void Connection::send(std::string_view bytes) {
  output_ += bytes;
  if (in_flight_.empty()) write_more();
}

void Connection::write_more() {
  if (output_.empty() || state_ == State::closed) return;
  in_flight_ = std::exchange(output_, {});
  body_in_flight_ = std::exchange(body_, {});
  counted_in_flight_ = in_flight_.size() - std::exchange(uncounted_, 0);
  // While a request is read, its own deadline runs, and covers "100 Continue".
  if (state_ != State::reading && state_ != State::awaiting) set_deadline(Deadline::write);
  const std::array<boost::asio::const_buffer, 2> bytes{boost::asio::buffer(in_flight_),
                                                       boost::asio::buffer(body_in_flight_.text())};
  boost::asio::async_write(socket_, bytes,
                           [self = shared_from_this()](const error_code& error, std::size_t) {
                             self->on_written(error);
                           });
}

void Connection::on_written(const error_code& error) {
  in_flight_.clear();
  body_in_flight_ = {};
  counted_in_flight_ = 0;
  if (state_ == State::closed) return;
  if (error) {
    close();
    return;
  }
  if (!output_.empty()) {
    write_more();
  } else if (state_ == State::streaming) {
    set_deadline(Deadline::none);
  } else if (state_ == State::answering) {
    after_answer();
  }
}

void Connection::after_answer() {
  if (keep_alive_) {
    state_ = State::reading;
    // One request a turn of the loop, however many are waiting: its answer ends in a write, and
    // only that brings us here again.
    advance();
    read_more();
    return;
  }
  if (!linger_ || end_of_input_) {
    close();
    return;
  }
  error_code ignored;
  socket_.shutdown(boost::asio::socket_base::shutdown_send, ignored);
  state_ = State::lingering;
  set_deadline(Deadline::linger);
}

// --- Ending ------------------------------------------------------------------------------------

void Connection::finish_soon() {
  keep_alive_ = false;
  linger_ = false;
  if (state_ == State::reading || state_ == State::lingering) close();
}

void Connection::close() {
  if (state_ == State::closed) return;
  const bool unfinished = state_ == State::awaiting || state_ == State::streaming;
  const Hooks* hooks = hooks_;
  silence();
  hooks->on_closed(id_, unfinished);
}

void Connection::silence() {
  state_ = State::closed;
  hooks_ = nullptr;
  ++deadline_round_;
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  output_.clear();
}

void Connection::set_deadline(Deadline deadline) {
  // A deadline that runs for the same thing goes on: every byte of a slow request does not get
  // its own. Each write does.
  if (deadline == deadline_ && deadline != Deadline::write) return;
  deadline_ = deadline;
  const std::uint64_t round = ++deadline_round_;
  if (deadline == Deadline::none) {
    timer_.cancel();
    return;
  }
  auto time = limits_.idle_deadline;
  if (deadline == Deadline::request) time = limits_.request_deadline;
  if (deadline == Deadline::linger) time = kLinger;
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this(), round](const error_code&) {
    if (self->deadline_round_ == round) self->on_deadline();
  });
}

void Connection::on_deadline() {
  if (state_ == State::closed) return;
  if (deadline_ != Deadline::request) {
    close();
    return;
  }
  Response response = error_response(make_error(Errc::timeout, "the request took too long"));
  response.status = 408;  // 504, which a timeout has elsewhere, would blame us
  fail(response);
}

}  // namespace andiron::api
