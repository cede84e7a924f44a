// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "agent/base/ip_address.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::api {

/// What came back: status 0 where the connection ended before a whole head.
struct Answer {
  unsigned status = 0;
  std::string head;  // status line and headers
  std::string body;  // chunks put together
};

/// A blocking client that sends exactly the bytes it is told to. A wait that lasts 20 s ends as if
/// the peer had closed, so that a broken server fails a test and does not hang it.
class RawClient {
 public:
  explicit RawClient(const std::string& path);
  /// Over TCP.
  explicit RawClient(const Endpoint& at);
  /// With a socket from before: connecting it needs no further descriptor.
  RawClient(const std::string& path, UniqueFd fd);

  /// False where the peer is gone.
  bool send(std::string_view bytes);
  Answer read_answer();
  /// The head of a chunked answer; read_chunk() gives what follows, "" at its end.
  std::string read_head();
  std::string read_chunk();
  /// All until the peer closes.
  std::string read_to_end();
  /// Whether something came, or the peer closed, by now.
  bool has_input() const;
  void half_close();
  void close() { fd_.reset(); }

 private:
  void connect(const sockaddr* address, socklen_t size);
  bool fill();
  std::string take(std::size_t bytes);

  UniqueFd fd_;
  std::string buffer_;
};

}  // namespace andiron::api
