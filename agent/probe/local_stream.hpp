// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::probe {

/// A connection to a Unix stream socket for a thread that may wait, but never longer than it says,
/// nor past the time that `stop` (any fd) becomes readable: that gives Errc::cancelled.
class LocalStream {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Never waits. Errors: connect(2)'s own; EAGAIN where the listener's queue is full.
  static Result<LocalStream> connect(const std::string& path, int stop);

  Result<void> send(std::string_view bytes, Deadline deadline);
  /// Waits for bytes; 0 is the end. Errors: timeout, cancelled, read's own.
  Result<std::size_t> receive(std::span<char> into, Deadline deadline);
  int fd() const noexcept { return fd_.get(); }

 private:
  LocalStream(UniqueFd fd, int stop) : fd_(std::move(fd)), stop_(stop) {}
  Result<void> wait(short events, Deadline deadline);

  UniqueFd fd_;
  int stop_;
};

}  // namespace andiron::probe
