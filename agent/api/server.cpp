// SPDX-License-Identifier: MIT
#include "agent/api/server.hpp"

#include "agent/api/connection.hpp"
// clang-format off
#include <boost/asio/post.hpp>
// clang-format on

#include <netinet/in.h>
#include <sys/socket.h>

#include <exception>
#include <optional>
#include <unordered_map>

#include "agent/api/acceptor.hpp"
#include "agent/api/local_socket.hpp"
#include "agent/api/tcp_gate.hpp"
#include "agent/api/tcp_socket.hpp"
#include "agent/base/check.hpp"
#include "agent/base/log.hpp"

namespace andiron::api {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::generic::stream_protocol;

// So many may be told at a time that there are too many; more are closed without a word.
constexpr std::size_t kMaxRefused = 32;

/// Each has limits of its own, so that neither starves the other.
enum class Transport { local, tcp };

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(asio::io_context& loop, Limits limits, Callbacks callbacks)
      : loop_(loop), limits_(limits), callbacks_(std::move(callbacks)) {
    hooks_.on_request = [this](Request request) { callbacks_.on_request(std::move(request)); };
    hooks_.refuse = [this](const IpAddress& peer, const ParsedRequest& request) {
      return gate_->refuse(peer, request, std::chrono::steady_clock::now());
    };
    hooks_.on_closed = [this](ConnectionId id, bool unfinished) { on_closed(id, unfinished); };
  }

  Result<void> listen(const std::string& path, const std::string& group);
  Result<void> adopt(UniqueFd listening, const std::string& group);
  bool group_missing() const noexcept { return group_missing_; }
  Result<bool> restore_name();
  Result<std::uint16_t> listen_tcp(const Endpoint& at, std::optional<BearerToken> token);
  void close_tcp();

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
    Transport transport = Transport::local;
    Kind kind = Kind::plain;
  };

  Result<void> prepare();
  Result<void> open_name();
  Result<void> serve(LocalSocket socket);
  void take(UniqueFd fd, Transport transport);
  void admit(UniqueFd fd, Transport transport, Caller caller);
  void end_tcp_clients();
  std::shared_ptr<Connection> find(ConnectionId id) const;
  void set_kind(ConnectionId id, Kind kind);
  std::size_t& count(Transport transport, Kind kind) noexcept {
    return counts_[static_cast<std::size_t>(transport)][static_cast<std::size_t>(kind)];
  }
  std::size_t limit(Transport transport, Kind kind) const noexcept;
  bool full(Transport transport, Kind kind) noexcept {
    return count(transport, kind) >= limit(transport, kind);
  }
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
  std::optional<LocalSocket> socket_;
  std::shared_ptr<Acceptor> acceptor_;
  std::shared_ptr<Acceptor> tcp_acceptor_;
  std::optional<Endpoint> tcp_at_;  // with the port that the kernel chose
  std::optional<TcpGate> gate_;     // from the first listen_tcp() on
  std::optional<asio::steady_timer> shutdown_timer_;
  std::function<void()> shutdown_done_;
  bool shutting_down_ = false;
  bool group_missing_ = false;
  std::unordered_map<ConnectionId, Client> clients_;
  std::size_t counts_[2][3] = {};  // by transport and kind
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
  return serve(TRY(LocalSocket::adopt(std::move(listening), group)));
}

Result<void> Server::Impl::prepare() {
  CHECK(!socket_);
  // Asio makes its reactor with the first socket, and throws when that fails.
  try {
    acceptor_ = std::make_shared<Acceptor>(
        loop_, "control socket", [this](UniqueFd fd) { take(std::move(fd), Transport::local); });
    tcp_acceptor_ = std::make_shared<Acceptor>(
        loop_, "http", [this](UniqueFd fd) { take(std::move(fd), Transport::tcp); });
    shutdown_timer_.emplace(loop_);
  } catch (const std::exception& problem) {
    return make_error(Errc::unavailable, std::string("event loop: ") + problem.what());
  }
  return {};
}

Result<void> Server::Impl::open_name() { return serve(TRY(LocalSocket::create(path_, group_))); }

Result<void> Server::Impl::serve(LocalSocket socket) {
  UniqueFd fd = socket.take_fd();
  group_missing_ = socket.group_missing();
  // Before the old socket is closed: until then no other can have its inode's number.
  socket_.emplace(std::move(socket));
  return acceptor_->open(std::move(fd));
}

Result<bool> Server::Impl::restore_name() {
  CHECK(socket_ || shutting_down_);
  if (shutting_down_ || (socket_->in_place() && acceptor_->is_open())) return false;
  TRY(open_name());
  return true;
}

std::size_t Server::Impl::limit(Transport transport, Kind kind) const noexcept {
  if (kind == Kind::refused) return kMaxRefused;
  if (transport == Transport::tcp)
    return kind == Kind::plain ? limits_.tcp_connections : limits_.tcp_streams;
  return kind == Kind::plain ? limits_.connections : limits_.streams;
}

void Server::Impl::take(UniqueFd fd, Transport transport) {
  if (full(transport, Kind::plain) && full(transport, Kind::refused)) return;
  if (transport == Transport::tcp) {
    const Result<IpAddress> address = take_tcp_client(fd.get());
    // One that is gone already, as a port scanner is.
    if (!address) return log::debug("http: a client: {}", address.error().message());
    return admit(std::move(fd), transport, *address);
  }
  const Result<os::Peer> peer = os::peer_of(fd.get());
  if (!peer) {
    log::warning("control socket: a client without credentials is turned away: {}",
                 peer.error().message());
    return;
  }
  admit(std::move(fd), transport, *peer);
}

void Server::Impl::admit(UniqueFd fd, Transport transport, Caller caller) {
  const bool tcp = transport == Transport::tcp;
  Protocol::socket socket(loop_);
  error_code error;
  socket.assign(tcp ? Protocol(AF_INET, IPPROTO_TCP) : Protocol(AF_UNIX, 0), fd.get(), error);
  if (error) {
    log::warning("{}: a client is turned away: {}", tcp ? "http" : "control socket",
                 error.message());
    return;
  }
  fd.release();
  const ConnectionId id = ++last_id_;
  const auto connection =
      std::make_shared<Connection>(loop_, std::move(socket), id, caller, limits_, hooks_);
  const Kind kind = full(transport, Kind::plain) ? Kind::refused : Kind::plain;
  clients_.emplace(id, Client{connection, transport, kind});
  ++count(transport, kind);
  if (kind == Kind::refused) {
    connection->refuse(error_response(make_error(Errc::unavailable, "too many connections")));
  } else {
    connection->start();
  }
}

// --- TCP ---------------------------------------------------------------------------------------

Result<std::uint16_t> Server::Impl::listen_tcp(const Endpoint& at,
                                               std::optional<BearerToken> token) {
  CHECK(tcp_acceptor_ && (token || at.address.is_loopback()));
  if (shutting_down_) return make_error(Errc::unavailable, "the agent stops");
  if (!tcp_acceptor_->is_open() || tcp_at_ != at) {
    close_tcp();  // the new place may be the old one's port
    UniqueFd socket = TRY(listen_on(at));
    TRY(tcp_acceptor_->open(std::move(socket)));
    tcp_at_ = TRY(endpoint_of(tcp_acceptor_->native_handle()));
    gate_.reset();
  }
  if (!gate_ || gate_->token() != token) {
    end_tcp_clients();
    gate_.emplace(at.address.is_loopback() ? Door::loopback : Door::network, std::move(token));
  }
  return tcp_at_->port;
}

void Server::Impl::close_tcp() {
  if (tcp_acceptor_) tcp_acceptor_->close();
  end_tcp_clients();
}

void Server::Impl::end_tcp_clients() {
  const auto clients = clients_;  // closing changes the table
  for (const auto& [id, client] : clients) {
    if (client.transport != Transport::tcp) continue;
    if (client.connection->streams()) {
      client.connection->close();
    } else {
      client.connection->finish_soon();
    }
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
  Client& client = place->second;
  --count(client.transport, client.kind);
  client.kind = kind;
  ++count(client.transport, kind);
}

void Server::Impl::respond(ConnectionId id, Response response) {
  if (const auto connection = find(id)) connection->respond(std::move(response));
}

void Server::Impl::begin_stream(ConnectionId id, unsigned status, std::string_view backlog) {
  const auto place = clients_.find(id);
  if (place == clients_.end() || !place->second.connection->awaits_answer()) return;
  const auto connection = place->second.connection;
  if (full(place->second.transport, Kind::stream)) {
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
  const auto place = clients_.find(id);
  if (place == clients_.end() || !place->second.connection->streams()) return;
  const auto connection = place->second.connection;
  // It goes back among the others; where those are full already, it may only finish.
  if (!full(place->second.transport, Kind::plain)) {
    set_kind(id, Kind::plain);
  } else {
    connection->finish_soon();
  }
  connection->end_stream();
}

void Server::Impl::on_closed(ConnectionId id, bool unfinished) {
  const auto place = clients_.find(id);
  if (place == clients_.end()) return;
  --count(place->second.transport, place->second.kind);
  clients_.erase(place);
  if (unfinished) post([id](Impl& self) { self.tell_gone(id); });
  if (shutting_down_ && clients_.empty()) post([](Impl& self) { self.finish_shutdown(); });
}

void Server::Impl::tell_gone(ConnectionId id) { callbacks_.on_gone(id); }

// --- Ending ------------------------------------------------------------------------------------

void Server::Impl::stop_accepting() {
  shutting_down_ = true;
  if (acceptor_) acceptor_->close();
  if (tcp_acceptor_) tcp_acceptor_->close();
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
Result<std::uint16_t> Server::listen_tcp(const Endpoint& at, std::optional<BearerToken> token) {
  return impl_->listen_tcp(at, std::move(token));
}
void Server::close_tcp() { impl_->close_tcp(); }
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
