// SPDX-License-Identifier: MIT
#include "agent/cli/client.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <exception>
#include <limits>
#include <utility>

// asio.hpp of Boost 1.74 wants <utility> first in C++20.
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "agent/base/unique_fd.hpp"

namespace andiron::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using namespace std::chrono_literals;
using boost::system::error_code;
using local = asio::local::stream_protocol;
using Parser = http::response_parser<http::buffer_body>;

constexpr auto kConnectTimeout = 5s;  // the agent accepts in microseconds, or its backlog is full
constexpr auto kSendTimeout = 10s;    // what the agent gives a client to send its request
constexpr auto kGrace = 2s;           // StreamOptions::on_interrupt
constexpr std::size_t kBodyLimit = std::size_t{64} << 20;  // 2^18 tensors of 256 bytes
constexpr std::size_t kLineLimit = std::size_t{1} << 20;   // the agent cuts its streams there too

Error to_error(const error_code& code, const std::string& doing) {
  if (code == beast::error::timeout) return make_error(Errc::timeout, doing);
  if (code == http::error::end_of_stream || code == http::error::partial_message ||
      code == asio::error::connection_reset || code == asio::error::broken_pipe) {
    return make_error(Errc::unavailable, doing + ": the agent closed the connection");
  }
  if (code == http::error::body_limit || code == http::error::header_limit) {
    return make_error(Errc::too_large, doing);
  }
  if (code.category() == boost::system::system_category()) {
    return make_system_error(code.value(), doing);
  }
  return make_error(Errc::bad_format, doing + ": the answer is not HTTP: " + code.message());
}

/// An epoll descriptor that turns readable when `fd` has an error or lost its reader. Asio could
/// wait on `fd` itself, but makes it non-blocking for that, for everybody who shares it.
UniqueFd watch_for_loss(int fd) {
  UniqueFd watch(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};  // errors and hang-ups come unasked
  // A regular file is refused, and has no reader to lose.
  if (watch && ::epoll_ctl(watch.get(), EPOLL_CTL_ADD, fd, &event) != 0) watch.reset();
  return watch;
}

/// Cuts a stream of bytes into lines.
class LineSplitter {
 public:
  explicit LineSplitter(const std::function<bool(std::string_view)>& on_line) : on_line_(on_line) {}

  /// False when the handler has had enough.
  Result<bool> add(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::size_t take = end == std::string_view::npos ? bytes.size() : end + 1;
      if (rest_.size() + take > kLineLimit) return make_error(Errc::too_large, "a line of events");
      rest_ += bytes.substr(0, take);
      bytes.remove_prefix(take);
      if (end != std::string_view::npos && !flush()) return false;
    }
    return true;
  }
  /// The last line may lack its newline.
  bool flush() {
    const std::string line = std::exchange(rest_, {});
    return line.empty() || on_line_(line);
  }

 private:
  const std::function<bool(std::string_view)>& on_line_;
  std::string rest_;
};

}  // namespace

/// Everything waits inside run(): one operation at a time, with signals handled meanwhile.
class Connection::Impl {
 public:
  // read_body() and LineSplitter have limits of their own. Boost 1.74 takes boost::none for 0 where
  // there is a Content-Length.
  Impl() { parser_.body_limit(std::numeric_limits<std::uint64_t>::max()); }

  error_code connect(const local::endpoint& endpoint) {
    stream_.expires_after(kConnectTimeout);
    return run([&](auto done) { stream_.async_connect(endpoint, std::move(done)); });
  }

  error_code send(const Request& request, const char* accept) {
    http::request<http::string_body> message;
    message.version(11);
    message.method_string(request.method);
    message.target(request.target);
    message.set(http::field::host, "andiron");
    message.set(http::field::user_agent, "andironctl/" ANDIRON_VERSION);
    message.set(http::field::accept, accept);
    message.keep_alive(false);
    if (!request.body.empty()) message.set(http::field::content_type, "application/json");
    message.body() = request.body;
    message.prepare_payload();
    stream_.expires_after(kSendTimeout);
    const error_code code = run([&](auto done) {
      http::async_write(stream_, message, [done](error_code ec, std::size_t) { done(ec); });
    });
    // An agent that refuses early answers and closes before it has read everything: its answer is
    // still there to be read.
    if (code == asio::error::broken_pipe || code == asio::error::connection_reset) return {};
    return code;
  }

  error_code read_header() {
    return run([&](auto done) {
      http::async_read_header(stream_, buffer_, parser_,
                              [done](error_code ec, std::size_t) { done(ec); });
    });
  }

  /// Some bytes of the body, perhaps none; with is_done() the last ones.
  Result<std::string_view> read_some() {
    auto& body = parser_.get().body();
    body.data = chunk_.data();
    body.size = chunk_.size();
    body.more = true;
    error_code code = run([&](auto done) {
      http::async_read_some(stream_, buffer_, parser_,
                            [done](error_code ec, std::size_t) { done(ec); });
    });
    if (code == http::error::need_buffer) code = {};
    if (code) return to_error(code, "read the agent's answer");
    return std::string_view(chunk_.data(), chunk_.size() - body.size);
  }

  Result<std::string> read_body() {
    std::string whole;
    while (!parser_.is_done()) {
      const std::string_view part = TRY(read_some());
      if (whole.size() + part.size() > kBodyLimit) {
        return make_error(Errc::too_large, "the agent's answer");
      }
      whole += part;
    }
    return whole;
  }

  /// Whatever ends the stream from our side closes it under the read that waits, and says why here.
  void end(StreamEnd reason) {
    if (!ended_) ended_ = reason;
    stream_.close();
  }

  void end_at(SteadyTime time, StreamEnd reason) {
    timer_.expires_at(time);
    timer_.async_wait([this, reason](error_code code) {
      if (!code) end(reason);
    });
  }

  void watch(const StreamOptions& options) {
    if (options.deadline) end_at(*options.deadline, StreamEnd::timed_out);
    error_code ignored;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      signals_.add(signal, ignored);
    signals_.async_wait([this, &options](error_code code, int) {
      if (code) return;
      interrupted_ = true;
      if (!options.on_interrupt || options.on_interrupt()) {
        end(StreamEnd::interrupted);
      } else {
        end_at(std::chrono::steady_clock::now() + kGrace, StreamEnd::interrupted);
      }
    });
    if (!options.output) return;
    UniqueFd loss = watch_for_loss(*options.output);
    if (!loss) return;
    output_.emplace(loop_, loss.release());
    output_->async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code code) {
      if (!code) end(StreamEnd::output_gone);
    });
  }

  Result<StreamEnd> read_lines(const StreamOptions& options) {
    LineSplitter lines(options.on_line);
    while (!parser_.is_done()) {
      const Result<std::string_view> part = read_some();
      if (ended_) return *ended_;
      if (!part) return part.error();
      if (!TRY(lines.add(*part))) return interrupted_ ? StreamEnd::interrupted : StreamEnd::stopped;
    }
    return lines.flush() ? StreamEnd::complete : StreamEnd::stopped;
  }

  Result<StreamOutcome> stream(const Request& request, const StreamOptions& options) {
    watch(options);
    error_code code = send(request, "application/x-ndjson");
    if (!code) {
      stream_.expires_never();
      code = read_header();
    }
    if (ended_) return StreamOutcome{*ended_, 0, {}};
    if (code) return to_error(code, "ask the agent");
    const unsigned status = parser_.get().result_int();
    if (status / 100 != 2) {
      stream_.expires_after(kSendTimeout);
      return StreamOutcome{StreamEnd::refused, status, TRY(read_body())};
    }
    return StreamOutcome{TRY(read_lines(options)), status, {}};
  }

  Result<Response> call(const Request& request, std::chrono::milliseconds timeout) {
    error_code code = send(request, "application/json");
    if (code) return to_error(code, "ask the agent");
    stream_.expires_after(timeout);
    code = read_header();
    if (code) return to_error(code, "ask the agent");
    const unsigned status = parser_.get().result_int();
    return Response{status, TRY(read_body())};
  }

 private:
  template <class Start>
  error_code run(Start start) {
    std::optional<error_code> result;
    start([&result](error_code code) { result = code; });
    loop_.restart();
    while (!result && loop_.run_one() > 0) {
    }
    return result.value_or(asio::error::operation_aborted);
  }

  asio::io_context loop_{1};
  beast::basic_stream<local> stream_{loop_};
  beast::flat_buffer buffer_;
  Parser parser_;
  std::array<char, 16384> chunk_{};
  asio::signal_set signals_{loop_};
  asio::steady_timer timer_{loop_};
  std::optional<asio::posix::stream_descriptor> output_;
  std::optional<StreamEnd> ended_;
  bool interrupted_ = false;
};

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

Result<Connection> Connection::open(const std::string& socket_path) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un{}.sun_path) - 1;
  if (socket_path.empty() || socket_path.size() > kLongest) {
    return make_error(Errc::bad_request, fmt::format("socket path \"{}\": must have 1 to {} bytes",
                                                     socket_path, kLongest));
  }
  try {  // Asio's constructors throw where there are no descriptors left.
    auto impl = std::make_unique<Impl>();
    const error_code code = impl->connect(local::endpoint(socket_path));
    if (code) return to_error(code, "connect to " + socket_path);
    return Connection(std::move(impl));
  } catch (const std::exception& failure) {
    return make_error(Errc::io_error,
                      fmt::format("connect to {}: {}", socket_path, failure.what()));
  }
}

Result<Response> Connection::call(const Request& request, std::chrono::milliseconds timeout) {
  try {
    return impl_->call(request, timeout);
  } catch (const std::exception& failure) {
    return make_error(Errc::io_error, fmt::format("ask the agent: {}", failure.what()));
  }
}

Result<StreamOutcome> Connection::stream(const Request& request, const StreamOptions& options) {
  try {
    return impl_->stream(request, options);
  } catch (const std::exception& failure) {
    return make_error(Errc::io_error, fmt::format("ask the agent: {}", failure.what()));
  }
}

std::string encode_segment(std::string_view text) {
  if (text == ".") return "%2E";
  if (text == "..") return "%2E%2E";
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string model_path(std::string_view name) { return "/v1/models/" + encode_segment(name); }

}  // namespace andiron::cli
