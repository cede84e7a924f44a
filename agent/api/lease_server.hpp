// SPDX-License-Identifier: MIT
#pragma once

#include <utility>  // first: Boost 1.74 needs it in C++20
// clang-format off
#include <boost/asio/io_context.hpp>
// clang-format on

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/error.hpp"
#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/os/read_right.hpp"

namespace andiron::api {

/// Names a client of the lease socket; never used twice.
using LeaseClientId = std::uint64_t;

/// What a client asks for: a model by its name, or by a file of it that he has open.
struct LeaseRequest {
  std::string model;  // empty with `source`
  /// From a stranger: looking at it may block, and so may closing it. Not on the control loop.
  UniqueFd source;
  Tier tier = Tier::pinned_ram;
  std::chrono::milliseconds wait{0};
};

/// What he gets.
struct LeaseGrant {
  std::uint64_t lease = 0;
  std::uint64_t generation = 0;
  std::string model;
  Tier tier = Tier::pinned_ram;
  std::uint64_t bytes = 0;
  std::vector<UniqueFd> fds;  // the index first
};

/// The lease socket: SOCK_SEQPACKET, one JSON object a packet, 64 KiB at most, descriptors by
/// SCM_RIGHTS; its protocol is in docs/leases.md. A connection is a lease, or about to be one: its
/// end is the lease's. What does not keep to the protocol ends. No client holds another up: what
/// he does not read waits in a queue of his own, and past its bound he is gone.
/// Thread: the loop's. Never blocks. Owns: its sockets, and the socket's name. Destroy it before
/// the loop's io_context and not from a callback; no callback runs after that.
class LeaseServer {
 public:
  struct Limits {
    std::size_t connections = 512;
    std::size_t per_uid = 64;                // but root's
    std::size_t requests = 16;               // of one connection
    std::size_t backlog = 256;               // packets that a client has not read
    std::chrono::milliseconds idle{30'000};  // without a lease, and with no request open
    std::chrono::milliseconds longest_wait{3'600'000};
  };
  struct Callbacks {
    /// One of: grant() or refuse() is due for it, unless the client goes.
    std::function<void(LeaseClientId, os::Reader, LeaseRequest)> on_request;
    /// The client of a request or a lease is gone. Never called from within one of the functions
    /// below.
    std::function<void(LeaseClientId)> on_gone;
    /// A stranger's, or his connection with what he sent and nobody read: to be closed where that
    /// may block.
    std::function<void(uid_t, std::vector<UniqueFd>)> discard;
    /// So much of this user's, or with none of everybody's, is still to be closed that no more is
    /// to be taken. Asked now and then while that is so.
    std::function<bool(std::optional<uid_t>)> is_behind;
  };

  LeaseServer(boost::asio::io_context& loop, Limits limits, Callbacks callbacks);
  ~LeaseServer();
  LeaseServer(const LeaseServer&) = delete;
  LeaseServer& operator=(const LeaseServer&) = delete;

  /// As Server::listen(); `everybody`: mode 0666, for permissions of files decide anyway.
  Result<void> listen(const std::string& socket_path, const std::string& group, bool everybody);
  /// As Server::adopt(), with a SOCK_SEQPACKET socket, whose mode is ours to change.
  Result<void> adopt(UniqueFd listening, const std::string& group, bool everybody);
  /// Changes whom it lets in, once it listens. Leases that there are stay.
  Result<void> let_in(bool everybody);
  /// As Server::restore_name().
  Result<bool> restore_name();

  void grant(LeaseClientId client, LeaseGrant grant);
  void refuse(LeaseClientId client, const Error& error);
  void revoke(LeaseClientId client, const std::string& reason, std::chrono::milliseconds deadline);

  /// Ends all, and unlinks the socket. No on_gone follows.
  void close();
  std::size_t connections() const noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace andiron::api
