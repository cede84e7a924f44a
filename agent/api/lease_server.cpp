// SPDX-License-Identifier: MIT
#include "agent/api/lease_server.hpp"

#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <exception>
#include <map>

#include "agent/api/acceptor.hpp"
#include "agent/api/lease_packet.hpp"
#include "agent/api/local_socket.hpp"
#include "agent/base/check.hpp"
#include "agent/base/log.hpp"

namespace andiron::api {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Descriptor = asio::posix::stream_descriptor;

/// So many packets of one client are looked at in one turn of the loop, which has other work too.
constexpr int kPacketsAtOnce = 4;

std::string make_nonce() {
  std::array<unsigned char, 16> bytes{};
  CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

/// After so long it is looked whether what strangers sent has been closed.
constexpr std::chrono::milliseconds kBehind{100};

/// One client: reads his packets, writes ours, and knows where the protocol stands.
class LeaseClient : public std::enable_shared_from_this<LeaseClient> {
 public:
  struct Hooks {
    std::function<void(LeaseClient&, LeaseRequest)> on_request;
    std::function<void(LeaseClient&)> on_closed;
    std::function<void(uid_t, std::vector<UniqueFd>)> discard;
    std::function<bool(uid_t)> is_behind;
  };

  LeaseClient(asio::io_context& loop, UniqueFd fd, LeaseClientId id, os::Reader who,
              const LeaseServer::Limits& limits, const Hooks& hooks)
      : socket_(loop, fd.get()),
        idle_(loop),
        behind_(loop),
        id_(id),
        who_(std::move(who)),
        limits_(limits),
        hooks_(hooks) {
    fd.release();
  }

  void start() {
    send(hello_packet(make_nonce()));
    watch_idleness();
    read();
  }
  /// To one that is not to be served: says so, and hangs up.
  void turn_away(const Error& error) {
    send(refused_packet(error));
    close();
  }

  void grant(LeaseGrant grant) {
    if (state_ != State::asked) return;
    state_ = State::granted;
    for (LeasePacket& packet : granted_packets(std::move(grant)))
      send(std::move(packet));
  }
  void refuse(const Error& error) {
    if (state_ != State::asked) return;
    state_ = State::idle;
    watch_idleness();
    send(refused_packet(error));
  }
  void revoke(const std::string& reason, std::chrono::milliseconds deadline) {
    if (state_ == State::granted) send(revoke_packet(reason, deadline));
  }

  /// on_closed follows, later, unless the server has gone.
  void close() {
    if (state_ == State::closed) return;
    served_ = state_ == State::asked || state_ == State::granted;
    state_ = State::closed;
    idle_.cancel();
    behind_.cancel();
    // He may have sent what ends with the socket, and whose end takes as long as he likes.
    std::vector<UniqueFd> fds;
    fds.emplace_back(socket_.release());
    ::shutdown(fds.front().get(), SHUT_RDWR);
    hooks_.discard(who_.uid, std::move(fds));
    unsent_.clear();
    hooks_.on_closed(*this);
  }

  LeaseClientId id() const noexcept { return id_; }
  const os::Reader& who() const noexcept { return who_; }
  /// Somebody waits for the end of what it asked for, or was given.
  bool served() const noexcept { return served_; }

 private:
  enum class State { idle, asked, granted, closed };

  void read() {
    if (state_ == State::closed) return;
    socket_.async_wait(Descriptor::wait_read, [self = shared_from_this()](const error_code& error) {
      if (!error) self->on_readable();
    });
  }

  void on_readable() {
    std::vector<char> buffer;
    for (int i = 0; i < kPacketsAtOnce && state_ != State::closed; ++i) {
      if (hooks_.is_behind(who_.uid)) return read_later();
      Received received = receive_packet(socket_.native_handle(), buffer);
      switch (received.kind) {
        case Received::Kind::nothing:
          return read();
        case Received::Kind::end:
          return close();
        case Received::Kind::violation:
          if (!received.packet.fds.empty())
            hooks_.discard(who_.uid, std::move(received.packet.fds));
          return turn_away(make_error(
              Errc::bad_request, "a packet is longer than 64 KiB, or came with more than that"));
        case Received::Kind::packet:
          take(std::move(received.packet));
          break;
      }
    }
    read();
  }

  void read_later() {
    behind_.expires_after(kBehind);
    behind_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
      const auto self = weak.lock();
      if (!cancelled && self) self->read();
    });
  }

  void take(LeasePacket packet) {
    const auto discard = [&] {
      if (!packet.fds.empty()) hooks_.discard(who_.uid, std::move(packet.fds));
    };
    if (state_ == State::granted) {
      discard();
      return send(refused_packet(make_error(
          Errc::bad_request, "this connection has its lease: open another one for another")));
    }
    auto request = parse_lease_request(packet.text, packet.fds.size(), limits_.longest_wait);
    if (request && state_ == State::asked)
      request = make_error(Errc::bad_request, "one request at a time");
    if (request && ++requests_ > limits_.requests)
      request = make_error(Errc::bad_request, "too many requests: connect anew");
    if (!request) {
      discard();
      return turn_away(request.error());
    }
    if (!packet.fds.empty()) request->source = std::move(packet.fds.front());
    state_ = State::asked;
    idle_.cancel();
    hooks_.on_request(*this, std::move(*request));
  }

  void send(LeasePacket packet) {
    if (state_ == State::closed) return;
    if (unsent_.size() >= limits_.backlog) return close();
    unsent_.push_back(std::move(packet));
    if (unsent_.size() == 1) write();
  }

  void write() {
    while (!unsent_.empty()) {
      switch (send_packet(socket_.native_handle(), unsent_.front())) {
        case Sent::whole:
          unsent_.pop_front();
          break;
        case Sent::gone:
          return close();
        case Sent::full:
          return socket_.async_wait(Descriptor::wait_write,
                                    [self = shared_from_this()](const error_code& error) {
                                      if (!error && self->state_ != State::closed) self->write();
                                    });
      }
    }
  }

  void watch_idleness() {
    idle_.expires_after(limits_.idle);
    idle_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
      const auto self = weak.lock();
      if (!cancelled && self && self->state_ == State::idle) self->close();
    });
  }

  Descriptor socket_;
  asio::steady_timer idle_;
  asio::steady_timer behind_;
  const LeaseClientId id_;
  const os::Reader who_;
  const LeaseServer::Limits& limits_;
  const Hooks& hooks_;
  State state_ = State::idle;
  bool served_ = false;
  std::size_t requests_ = 0;
  std::deque<LeasePacket> unsent_;
};

}  // namespace

class LeaseServer::Impl : public std::enable_shared_from_this<LeaseServer::Impl> {
 public:
  Impl(asio::io_context& loop, Limits limits, Callbacks callbacks)
      : loop_(loop), limits_(limits), callbacks_(std::move(callbacks)) {
    hooks_.on_request = [this](LeaseClient& client, LeaseRequest request) {
      callbacks_.on_request(client.id(), client.who(), std::move(request));
    };
    hooks_.on_closed = [this](LeaseClient& client) { on_closed(client); };
    hooks_.discard = [this](uid_t uid, std::vector<UniqueFd> fds) {
      callbacks_.discard(uid, std::move(fds));
    };
    hooks_.is_behind = [this](uid_t uid) { return callbacks_.is_behind(uid); };
    turned_away_ = {{}, [](LeaseClient&) {}, hooks_.discard, hooks_.is_behind};
  }

  Result<void> listen(const std::string& path, const std::string& group, bool everybody) {
    path_ = path;
    group_ = group;
    kind_ = {SOCK_SEQPACKET, everybody};
    TRY(prepare());
    return open_name();
  }

  Result<void> adopt(UniqueFd listening, const std::string& group, bool everybody) {
    TRY(prepare());
    LocalSocket adopted = TRY(LocalSocket::adopt(std::move(listening), group));
    TRY(serve(std::move(adopted)));
    kind_ = {SOCK_SEQPACKET, false};
    return everybody ? let_in(true) : Result<void>();
  }

  Result<void> let_in(bool everybody) {
    if (!socket_ || kind_.everybody == everybody) return {};
    kind_.everybody = everybody;
    return socket_->let_in(everybody);
  }

  Result<bool> restore_name() {
    if (!socket_ || (socket_->in_place() && acceptor_->is_open())) return false;
    TRY(open_name());
    return true;
  }

  void close() {
    if (acceptor_) acceptor_->close();
    socket_.reset();
    const auto clients = std::exchange(clients_, {});
    per_uid_.clear();
    for (const auto& [id, client] : clients)
      client->close();
  }

  /// Owned: what is done to a client may end it.
  std::shared_ptr<LeaseClient> find(LeaseClientId id) const {
    const auto place = clients_.find(id);
    return place == clients_.end() ? nullptr : place->second;
  }
  std::size_t connections() const noexcept { return clients_.size(); }

 private:
  Result<void> prepare() {
    CHECK(!socket_);
    // Asio makes its reactor with the first socket, and throws when that fails.
    try {
      acceptor_ = std::make_shared<Acceptor>(loop_, "lease socket",
                                             [this](UniqueFd fd) { take(std::move(fd)); });
      acceptor_->hold_while([this] { return callbacks_.is_behind(std::nullopt); });
    } catch (const std::exception& problem) {
      return make_error(Errc::unavailable, std::string("event loop: ") + problem.what());
    }
    return {};
  }

  Result<void> open_name() { return serve(TRY(LocalSocket::create(path_, group_, kind_))); }

  Result<void> serve(LocalSocket socket) {
    UniqueFd fd = socket.take_fd();
    // Before the old socket is closed: until then no other can have its inode's number.
    socket_.emplace(std::move(socket));
    return acceptor_->open(std::move(fd));
  }

  void take(UniqueFd fd) {
    Result<os::Reader> who = os::reader_of(fd.get());
    if (!who) {
      log::warning("lease socket: a client without credentials is turned away: {}",
                   who.error().message());
      return;
    }
    const uid_t uid = who->uid;
    std::size_t& of_uid = per_uid_[uid];
    const bool full =
        clients_.size() >= limits_.connections || (uid != 0 && of_uid >= limits_.per_uid);
    std::shared_ptr<LeaseClient> client;
    try {
      client = std::make_shared<LeaseClient>(loop_, std::move(fd), ++last_id_, std::move(*who),
                                             limits_, full ? turned_away_ : hooks_);
    } catch (const std::exception& problem) {
      if (of_uid == 0) per_uid_.erase(uid);
      return log::warning("lease socket: a client is turned away: {}", problem.what());
    }
    if (full) {
      if (of_uid == 0) per_uid_.erase(uid);
      return client->turn_away(make_error(Errc::unavailable, "too many connections"));
    }
    ++of_uid;
    clients_.emplace(client->id(), client);
    client->start();
  }

  void on_closed(LeaseClient& client) {
    const auto node = clients_.extract(client.id());
    if (node.empty()) return;  // close() of all
    const auto of_uid = per_uid_.find(client.who().uid);
    if (--of_uid->second == 0) per_uid_.erase(of_uid);
    if (!client.served()) return;
    asio::post(loop_, [weak = weak_from_this(), id = client.id()] {
      if (const auto self = weak.lock()) self->callbacks_.on_gone(id);
    });
  }

  asio::io_context& loop_;
  const Limits limits_;
  const Callbacks callbacks_;
  LeaseClient::Hooks hooks_;
  LeaseClient::Hooks turned_away_;
  std::string path_;
  std::string group_;
  LocalSocketKind kind_;
  std::optional<LocalSocket> socket_;
  std::shared_ptr<Acceptor> acceptor_;
  std::map<LeaseClientId, std::shared_ptr<LeaseClient>> clients_;
  std::map<uid_t, std::size_t> per_uid_;
  LeaseClientId last_id_ = 0;
};

LeaseServer::LeaseServer(asio::io_context& loop, Limits limits, Callbacks callbacks)
    : impl_(std::make_shared<Impl>(loop, limits, std::move(callbacks))) {}
LeaseServer::~LeaseServer() { impl_->close(); }

Result<void> LeaseServer::listen(const std::string& socket_path, const std::string& group,
                                 bool everybody) {
  return impl_->listen(socket_path, group, everybody);
}
Result<void> LeaseServer::adopt(UniqueFd listening, const std::string& group, bool everybody) {
  return impl_->adopt(std::move(listening), group, everybody);
}
Result<void> LeaseServer::let_in(bool everybody) { return impl_->let_in(everybody); }
Result<bool> LeaseServer::restore_name() { return impl_->restore_name(); }
void LeaseServer::close() { impl_->close(); }
std::size_t LeaseServer::connections() const noexcept { return impl_->connections(); }

void LeaseServer::grant(LeaseClientId client, LeaseGrant grant) {
  if (const auto found = impl_->find(client)) found->grant(std::move(grant));
}
void LeaseServer::refuse(LeaseClientId client, const Error& error) {
  if (const auto found = impl_->find(client)) found->refuse(error);
}
void LeaseServer::revoke(LeaseClientId client, const std::string& reason,
                         std::chrono::milliseconds deadline) {
  if (const auto found = impl_->find(client)) found->revoke(reason, deadline);
}

}  // namespace andiron::api
