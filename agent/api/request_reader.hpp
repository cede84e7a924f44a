// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/api/server.hpp"

namespace andiron::api {

/// What a request's header says of who sends it and to whom: nothing here is proved.
struct Claims {
  std::string host = {};  // empty where there is none
  std::optional<std::string> origin = {};
  std::optional<std::string> authorization = {};
  /// A browser says that a page of another site wants it as a part of itself (Sec-Fetch-Site). To
  /// follow a link is none of that.
  bool for_other_site = false;
};

/// A request as it came off the wire, with what the answer must know about its connection.
struct ParsedRequest {
  Request request;  // connection and peer are not set
  Claims claims;
  bool keep_alive = true;
  bool http_1_0 = false;  // knows no chunks
};

/// Bytes in, requests out, in order, however the bytes are cut. No sockets: the server and the
/// fuzzer feed the same one.
/// Thread: one. Never blocks. Owns: at most about `limit` bytes, plus what was appended last.
/// On failure: stays failed; failure() is the answer to give before closing.
class RequestReader {
 public:
  enum class Step {
    need_more,
    send_continue,  // the client waits for "100 Continue" before it sends the body
    request,        // take() it
    failed,
  };

  /// `limit`: bytes of one request, header and body, chunk framing included.
  explicit RequestReader(std::size_t limit);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  void append(std::string_view bytes);
  Step step();
  /// Once after each Step::request.
  ParsedRequest take();
  /// After Step::failed: 400, 413 or 431.
  const Response& failure() const noexcept;

  /// Whether a part of a request has come: the difference between slow and idle.
  bool in_request() const noexcept;
  /// Bytes that were appended and not used yet.
  std::size_t buffered() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace andiron::api
