// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace andiron::probe {

/// One HTTP/1.1 reply as a client reads it, however the bytes are cut: the body goes to a sink as
/// it comes, with its chunks taken apart. Chunked, of a given length, or until the peer hangs up.
/// No sockets. Owns: at most kMaxHead bytes. Thread: one.
class HttpReply {
 public:
  /// Head and trailers, each.
  static constexpr std::size_t kMaxHead = 16 * 1024;
  using Sink = std::function<void(std::string_view)>;

  /// Errors: bad_format, and then for good.
  Result<void> feed(std::string_view bytes, const Sink& sink);
  /// The peer hung up. Errors: truncated where the reply was not whole.
  Result<void> finish();

  /// 0 until the head is whole.
  unsigned status() const noexcept { return status_; }
  /// All of it came.
  bool done() const noexcept { return state_ == State::done; }

 private:
  enum class State { head, chunk_size, chunk_data, chunk_end, trailer, sized, until_close, done };
  Result<void> read_head();
  Result<void> read_header(std::string_view line);
  Result<void> end_line();
  Result<void> read_chunk_size(std::string_view line);
  Result<void> text_byte(char c);

  State state_ = State::head;
  std::string text_;          // of the head, or of a line between chunks
  std::size_t trailers_ = 0;  // bytes
  std::uint64_t left_ = 0;    // of the chunk or the body
  unsigned status_ = 0;
  bool chunked_ = false;
  bool sized_ = false;
};

/// Lines out of bytes. A line past the limit is left out and counted, and those after it come.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t limit) : limit_(limit) {}
  /// `sink` gets each whole line, without its end, and never an empty one.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& sink);
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  std::size_t limit_;
  std::string line_;
  bool too_long_ = false;
  std::uint64_t dropped_ = 0;
};

}  // namespace andiron::probe
