// SPDX-License-Identifier: MIT
#include "agent/api/server.hpp"

#include "agent/api/connection.hpp"
// clang-format off
#include <boost/asio/post.hpp>
// clang-format on

#include <sys/socket.h>

#include <cerrno>
#include <exception>
#include <optional>
#include <unordered_map>

#include "agent/api/control_socket.hpp"
#include "agent/base/check.hpp"
#include "agent/base/log.hpp"

namespace andiron::api {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;

// When file descriptors or memory run out, accept(2) fails at once and for every waiting client:
// try again when something may have been given back.
constexpr std::chrono::milliseconds kAcceptPause{100};
// So many are accepted in one turn of the loop, which has other work too.
constexpr int kAcceptBatch = 16;
// So many may be told at a time that there are too many; more are closed without a word.
constexpr std::size_t kMaxRefused = 32;

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(asio::io_context& loop, Limits limits, Callbacks callbacks)
      : loop_(loop), limits_(limits), callbacks_(std::move(callbacks)) {
    hooks_.on_request = [this](Request request) { callbacks_.on_request(std::move(request)); };
    hooks_.on_closed = [this](ConnectionId id, bool unfinished) { on_closed(id, unfinished); };
  }

  Result<void> listen(const std::string& path, const std::string& group);
  Result<void> adopt(UniqueFd listening, const std::string& group);
  bool group_missing() const noexcept { return group_missing_; }
  Result<bool> restore_name();

  void respond(ConnectionId id, Response response);
  void begin_stream(ConnectionId id, unsigned status, std::string_view backlog);
  void write_line(ConnectionId id, std::string_view line);
  void end_stream(ConnectionId id);
  void shutdown(std::chrono::milliseconds deadline, std::function<void()> done);
  void silence();
  std::size_t connections() const noexcept { return clients_.size(); }

 private:
  enum class Kind { plain, stream, refused };
  struct Client {
    std::shared_ptr<Connection> connection;
    Kind kind = Kind::plain;
  };

  Result<void> prepare();
  Result<void> open_name();
  Result<void> serve(ControlSocket socket);
  void wait_for_clients();
  void accept_some();
  void pause_accepting(int error);
  void adopt(UniqueFd fd);
  std::shared_ptr<Connection> find(ConnectionId id) const;
  void set_kind(ConnectionId id, Kind kind);
  std::size_t& count(Kind kind) noexcept { return counts_[static_cast<std::size_t>(kind)]; }
  void on_closed(ConnectionId id, bool unfinished);
  void tell_gone(ConnectionId id);
  void stop_accepting();
  void finish_shutdown();

  /// `function(impl)` later from the loop, unless the server is destroyed by then.
  template <class Function>
  void post(Function function) {
    asio::post(loop_, [weak = weak_from_this(), function = std::move(function)] {
      if (const auto self = weak.lock()) function(*self);
    });
  }

  asio::io_context& loop_;
  const Limits limits_;
  const Callbacks callbacks_;
  Connection::Hooks hooks_;
  std::string path_;
  std::string group_;
  std::optional<ControlSocket> socket_;
  std::optional<Protocol::acceptor> acceptor_;
  std::optional<asio::steady_timer> accept_pause_;
  std::optional<asio::steady_timer> shutdown_timer_;
  std::function<void()> shutdown_done_;
  std::uint64_t openings_ = 0;  // a wait for clients of an earlier one ends there
  bool shutting_down_ = false;
  bool group_missing_ = false;
  bool out_of_files_ = false;
  std::unordered_map<ConnectionId, Client> clients_;
  std::size_t counts_[3] = {0, 0, 0};
  ConnectionId last_id_ = 0;
};

// --- Accepting ---------------------------------------------------------------------------------

Result<void> Server::Impl::listen(const std::string& path, const std::string& group) {
  path_ = path;
  group_ = group;
  TRY(prepare());
  return open_name();
}

Result<void> Server::Impl::adopt(UniqueFd listening, const std::string& group) {
  TRY(prepare());
  return serve(TRY(ControlSocket::adopt(std::move(listening), group)));
}

Result<void> Server::Impl::prepare() {
  CHECK(!socket_);
  // Asio makes its reactor with the first socket, and throws when that fails.
  try {
    acceptor_.emplace(loop_);
    accept_pause_.emplace(loop_);
    shutdown_timer_.emplace(loop_);
  } catch (const std::exception& problem) {
    return make_error(Errc::unavailable, std::string("event loop: ") + problem.what());
  }
  return {};
}

Result<void> Server::Impl::open_name() { return serve(TRY(ControlSocket::create(path_, group_))); }

Result<void> Server::Impl::serve(ControlSocket socket) {
  UniqueFd fd = socket.take_fd();
  group_missing_ = socket.group_missing();
  // Before the old socket is closed: until then no other can have its inode's number.
  socket_.emplace(std::move(socket));
  error_code error;
  if (acceptor_->is_open()) acceptor_->close(error);
  accept_pause_->cancel();
  acceptor_->assign(Protocol(), fd.get(), error);
  if (error) return make_system_error(error.value(), "watch the control socket");
  fd.release();
  ++openings_;
  wait_for_clients();
  return {};
}

Result<bool> Server::Impl::restore_name() {
  CHECK(socket_ || shutting_down_);
  if (shutting_down_ || (socket_->in_place() && acceptor_->is_open())) return false;
  TRY(open_name());
  return true;
}

void Server::Impl::wait_for_clients() {
  // Not async_accept: in Boost 1.74 that makes sockets which a child process would inherit.
  acceptor_->async_wait(asio::socket_base::wait_read,
                        [weak = weak_from_this(), opening = openings_](const error_code& error) {
                          const auto self = weak.lock();
                          if (self && !error && self->openings_ == opening) self->accept_some();
                        });
}

void Server::Impl::accept_some() {
  if (shutting_down_) return;
  for (int i = 0; i < kAcceptBatch; ++i) {
    UniqueFd fd(
        ::accept4(acceptor_->native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      out_of_files_ = false;
      adopt(std::move(fd));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_accepting(errno);
      return;
    }
    if (errno == EAGAIN) break;
    // Else this one client's connection broke before we came to it.
  }
  wait_for_clients();
}

void Server::Impl::pause_accepting(int error) {
  if (!std::exchange(out_of_files_, true)) {
    log::warning("control socket: {}; new clients wait until that changes",
                 std::generic_category().message(error));
  }
  accept_pause_->expires_after(kAcceptPause);
  accept_pause_->async_wait(
      [weak = weak_from_this(), opening = openings_](const error_code& cancelled) {
        const auto self = weak.lock();
        if (self && !cancelled && self->openings_ == opening) self->accept_some();
      });
}

void Server::Impl::adopt(UniqueFd fd) {
  const bool full = count(Kind::plain) >= limits_.connections;
  if (full && count(Kind::refused) >= kMaxRefused) return;
  const Result<os::Peer> peer = os::peer_of(fd.get());
  if (!peer) {
    log::warning("control socket: a client without credentials is turned away: {}",
                 peer.error().message());
    return;
  }
  Protocol::socket socket(loop_);
  error_code error;
  socket.assign(Protocol(), fd.get(), error);
  if (error) {
    log::warning("control socket: a client is turned away: {}", error.message());
    return;
  }
  fd.release();
  const ConnectionId id = ++last_id_;
  const auto connection =
      std::make_shared<Connection>(loop_, std::move(socket), id, *peer, limits_, hooks_);
  const Kind kind = full ? Kind::refused : Kind::plain;
  clients_.emplace(id, Client{connection, kind});
  ++count(kind);
  if (full) {
    connection->refuse(error_response(make_error(Errc::unavailable, "too many connections")));
  } else {
    connection->start();
  }
}

// --- Answers -----------------------------------------------------------------------------------

std::shared_ptr<Connection> Server::Impl::find(ConnectionId id) const {
  const auto place = clients_.find(id);
  return place == clients_.end() ? nullptr : place->second.connection;
}

void Server::Impl::set_kind(ConnectionId id, Kind kind) {
  const auto place = clients_.find(id);
  if (place == clients_.end()) return;
  --count(place->second.kind);
  place->second.kind = kind;
  ++count(kind);
}

void Server::Impl::respond(ConnectionId id, Response response) {
  if (const auto connection = find(id)) connection->respond(std::move(response));
}

void Server::Impl::begin_stream(ConnectionId id, unsigned status, std::string_view backlog) {
  const auto connection = find(id);
  if (!connection || !connection->awaits_answer()) return;
  if (count(Kind::stream) >= limits_.streams) {
    connection->respond(error_response(make_error(Errc::unavailable, "too many streams")));
    post([id](Impl& self) { self.tell_gone(id); });
    return;
  }
  set_kind(id, Kind::stream);
  connection->begin_stream(status, backlog);
}

void Server::Impl::write_line(ConnectionId id, std::string_view line) {
  if (const auto connection = find(id)) connection->write_line(line);
}

void Server::Impl::end_stream(ConnectionId id) {
  const auto connection = find(id);
  if (!connection || !connection->streams()) return;
  // It goes back among the others; where those are full already, it may only finish.
  if (count(Kind::plain) < limits_.connections) {
    set_kind(id, Kind::plain);
  } else {
    connection->finish_soon();
  }
  connection->end_stream();
}

void Server::Impl::on_closed(ConnectionId id, bool unfinished) {
  const auto place = clients_.find(id);
  if (place == clients_.end()) return;
  --count(place->second.kind);
  clients_.erase(place);
  if (unfinished) post([id](Impl& self) { self.tell_gone(id); });
  if (shutting_down_ && clients_.empty()) post([](Impl& self) { self.finish_shutdown(); });
}

void Server::Impl::tell_gone(ConnectionId id) { callbacks_.on_gone(id); }

// --- Ending ------------------------------------------------------------------------------------

void Server::Impl::stop_accepting() {
  shutting_down_ = true;
  error_code ignored;
  if (acceptor_) acceptor_->close(ignored);
  if (accept_pause_) accept_pause_->cancel();
  socket_.reset();  // takes the name away
}

void Server::Impl::shutdown(std::chrono::milliseconds deadline, std::function<void()> done) {
  CHECK(!shutting_down_);
  stop_accepting();
  shutdown_done_ = std::move(done);
  const auto clients = clients_;  // closing changes the table
  for (const auto& [id, client] : clients)
    client.connection->finish_soon();
  if (clients_.empty()) {
    post([](Impl& self) { self.finish_shutdown(); });
    return;
  }
  shutdown_timer_->expires_after(deadline);
  shutdown_timer_->async_wait([weak = weak_from_this()](const error_code& cancelled) {
    const auto self = weak.lock();
    if (!self || cancelled) return;
    const auto late = self->clients_;
    for (const auto& [id, client] : late)
      client.connection->close();
  });
}

void Server::Impl::finish_shutdown() {
  if (shutdown_timer_) shutdown_timer_->cancel();
  // Two closings may both have seen the table empty.
  if (const auto done = std::exchange(shutdown_done_, nullptr)) done();
}

void Server::Impl::silence() {
  stop_accepting();
  if (shutdown_timer_) shutdown_timer_->cancel();
  for (const auto& [id, client] : clients_)
    client.connection->silence();
  clients_.clear();
}

// --- The face ----------------------------------------------------------------------------------

Server::Server(asio::io_context& loop, Limits limits, Callbacks callbacks)
    : impl_(std::make_shared<Impl>(loop, limits, std::move(callbacks))) {}
Server::~Server() { impl_->silence(); }

Result<void> Server::listen(const std::string& socket_path, const std::string& group) {
  return impl_->listen(socket_path, group);
}
Result<void> Server::adopt(UniqueFd listening, const std::string& group) {
  return impl_->adopt(std::move(listening), group);
}
bool Server::group_missing() const noexcept { return impl_->group_missing(); }
Result<bool> Server::restore_name() { return impl_->restore_name(); }
void Server::respond(ConnectionId connection, Response response) {
  impl_->respond(connection, std::move(response));
}
void Server::begin_stream(ConnectionId connection, unsigned status, std::string backlog) {
  impl_->begin_stream(connection, status, backlog);
}
void Server::write_line(ConnectionId connection, std::string line) {
  impl_->write_line(connection, line);
}
void Server::end_stream(ConnectionId connection) { impl_->end_stream(connection); }
void Server::shutdown(std::chrono::milliseconds deadline, std::function<void()> done) {
  impl_->shutdown(deadline, std::move(done));
}
std::size_t Server::connections() const noexcept { return impl_->connections(); }

}  // namespace andiron::api
