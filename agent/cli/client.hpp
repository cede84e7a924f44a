// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/clock.hpp"
#include "agent/base/result.hpp"

namespace andiron::cli {

/// A call of the control API.
struct Request {
  std::string method = "GET";
  std::string target;  // with its query, percent-encoded: see encode_segment()
  std::string body;    // JSON, or empty
};

struct Response {
  unsigned status = 0;
  std::string body;
};

/// How a stream of lines ended.
enum class StreamEnd {
  complete,     // the agent ended it
  refused,      // a status other than 2xx: see the body
  stopped,      // the handler had enough
  interrupted,  // SIGINT, SIGTERM or SIGHUP
  timed_out,    // past StreamOptions::deadline
  output_gone,  // nobody reads StreamOptions::output any more
};

struct StreamOutcome {
  StreamEnd end = StreamEnd::complete;
  unsigned status = 0;
  std::string body;  // of a refusal
};

struct StreamOptions {
  /// Each line, its newline included where it has one. False ends the stream.
  std::function<bool(std::string_view)> on_line;
  /// At the first signal; false asks for a moment (two seconds) more, for a line that must be seen
  /// first. Without it, a signal ends the stream.
  std::function<bool()> on_interrupt;
  std::optional<SteadyTime> deadline;
  std::optional<int> output;  // a descriptor to watch, such as standard output's
};

/// One connection to the agent's control socket, for one request.
/// Thread: one. Blocks: every call, up to its deadline. Owns: the connection; while stream() runs,
/// also the process's handling of SIGINT, SIGTERM and SIGHUP.
class Connection {
 public:
  /// Errors: the system's, where nobody listens (ENOENT, ECONNREFUSED) or it is not allowed
  /// (EACCES); timeout, where somebody listens but takes no connection; bad_request for a path
  /// that does not fit a socket address.
  static Result<Connection> open(const std::string& socket_path);

  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;
  ~Connection();

  /// The whole answer, of 64 MiB at most. The agent itself gives up after 30 s and says so: its
  /// word comes before this timeout. Errors: timeout; bad_format for what is not HTTP; too_large;
  /// unavailable when the agent closed the connection before the end of its answer.
  Result<Response> call(const Request& request,
                        std::chrono::milliseconds timeout = std::chrono::seconds(45));

  /// NDJSON lines, of 1 MiB at most, as they come. Errors: as call's.
  Result<StreamOutcome> stream(const Request& request, const StreamOptions& options);

 private:
  class Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A name as one segment of a path: everything outside RFC 3986's unreserved characters is
/// percent-encoded, and so are the segments "." and "..", which would climb.
std::string encode_segment(std::string_view text);
/// Where the API has a model: "/v1/models/NAME", encoded.
std::string model_path(std::string_view name);

}  // namespace andiron::cli
