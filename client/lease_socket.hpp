// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::client {

using Deadline = std::chrono::steady_clock::time_point;

/// What the protocol allows in a packet.
constexpr std::size_t kMaxPacketBytes = 64 * 1024;
constexpr std::size_t kMaxPacketFds = 64;

struct Packet {
  std::string text;
  std::vector<UniqueFd> fds;
};

/// A connection to the agent's lease socket. Thread: one at a time. Blocks: up to the deadline
/// given, never longer. What a peer sends past the protocol's bounds is an error, and its
/// descriptors are closed.
class LeaseSocket {
 public:
  /// Errors: unavailable where nobody listens, permission_denied, timeout, bad_request for a path
  /// that no socket can have.
  static Result<LeaseSocket> connect(const std::string& path, Deadline deadline);

  /// One packet, with a copy of `fd` unless that is -1. Errors: unavailable, timeout, too_large.
  Result<void> send(std::string_view text, int fd, Deadline deadline);
  /// Errors: unavailable when the agent hung up, timeout, bad_format for a packet out of bounds,
  /// io_error where its descriptors did not fit our limit.
  Result<Packet> receive(Deadline deadline);
  /// The same without waiting; nothing where nothing came.
  Result<std::optional<Packet>> receive_now();

  int fd() const noexcept { return fd_.get(); }

 private:
  explicit LeaseSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<void> wait(short events, Deadline deadline) const;

  UniqueFd fd_;
};

}  // namespace andiron::client
