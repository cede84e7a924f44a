// SPDX-License-Identifier: MIT
// Of the server's own; not for users of api.
#pragma once

#include <utility>  // first: Boost 1.74 needs it in C++20
// clang-format off
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
// clang-format on

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::api {

/// Takes clients from one listening socket, whatever its family, a few in a turn of the loop. When
/// descriptors or memory run out, new clients wait until that changes.
/// Thread: the loop's. Never blocks. Owns: the listening socket.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  /// `take` gets each client's descriptor: non-blocking, close-on-exec. It must live until close().
  Acceptor(boost::asio::io_context& loop, std::string name, std::function<void(UniqueFd)> take);

  /// Takes from this socket from now on, instead of one from before. Non-blocking, and listens.
  Result<void> open(UniqueFd socket);
  /// While that holds, new clients wait. It is looked at now and then.
  void hold_while(std::function<bool()> held) { held_ = std::move(held); }
  bool is_open() const noexcept { return socket_.is_open(); }
  void close();
  int native_handle() { return socket_.native_handle(); }

 private:
  void wait();
  void accept_some();
  void pause_for(int error);
  void pause();

  const std::string name_;  // as the log calls it
  const std::function<void(UniqueFd)> take_;
  std::function<bool()> held_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  std::uint64_t openings_ = 0;  // a wait for clients of an earlier one ends there
  bool out_of_files_ = false;
};

}  // namespace andiron::api
