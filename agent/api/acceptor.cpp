// SPDX-License-Identifier: MIT
#include "agent/api/acceptor.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <system_error>

#include "agent/base/log.hpp"

namespace andiron::api {
namespace {

using boost::system::error_code;

// When file descriptors or memory run out, accept(2) fails at once and for every waiting client:
// try again when something may have been given back.
constexpr std::chrono::milliseconds kPause{100};
// So many are accepted in one turn of the loop, which has other work too.
constexpr int kBatch = 16;

}  // namespace

Acceptor::Acceptor(boost::asio::io_context& loop, std::string name,
                   std::function<void(UniqueFd)> take)
    : name_(std::move(name)), take_(std::move(take)), socket_(loop), pause_(loop) {}

Result<void> Acceptor::open(UniqueFd socket) {
  close();
  error_code error;
  socket_.assign(socket.get(), error);
  if (error) return make_system_error(error.value(), "watch the " + name_);
  socket.release();
  wait();
  return {};
}

void Acceptor::close() {
  ++openings_;
  error_code ignored;
  socket_.close(ignored);
  pause_.cancel();
}

void Acceptor::wait() {
  // Not async_accept: in Boost 1.74 that makes sockets which a child process would inherit.
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this(), opening = openings_](const error_code& error) {
                       const auto self = weak.lock();
                       if (self && !error && self->openings_ == opening) self->accept_some();
                     });
}

void Acceptor::accept_some() {
  const std::uint64_t opening = openings_;
  for (int i = 0; i < kBatch; ++i) {
    if (held_ && held_()) return pause();
    UniqueFd fd(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      out_of_files_ = false;
      take_(std::move(fd));
      if (openings_ != opening) return;
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_for(errno);
      return;
    }
    if (errno == EAGAIN) break;
    // Else this one client's connection broke before we came to it.
  }
  wait();
}

void Acceptor::pause_for(int error) {
  if (!std::exchange(out_of_files_, true)) {
    log::warning("{}: {}; new clients wait until that changes", name_,
                 std::generic_category().message(error));
  }
  pause();
}

void Acceptor::pause() {
  pause_.expires_after(kPause);
  pause_.async_wait([weak = weak_from_this(), opening = openings_](const error_code& cancelled) {
    const auto self = weak.lock();
    if (self && !cancelled && self->openings_ == opening) self->accept_some();
  });
}

}  // namespace andiron::api
