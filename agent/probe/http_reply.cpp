// SPDX-License-Identifier: MIT
#include "agent/probe/http_reply.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace andiron::probe {
namespace {

/// A chunk's size with its extensions; Docker writes eight digits at most.
constexpr std::size_t kMaxSizeLine = 256;
/// Chunks and bodies of strangers: a number that cannot overflow anything, and that nobody stores.
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 40;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool same_letters(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
  });
}

bool parse(std::string_view text, int base, std::uint64_t& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return failure == std::errc{} && end == text.data() + text.size() && number <= kMaxSize;
}

Error bad(const char* what) {
  return make_error(Errc::bad_format, std::string("HTTP reply: ") + what);
}

}  // namespace

Result<void> HttpReply::feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    switch (state_) {
      case State::done:
        return bad("bytes after its end");
      case State::until_close:
        sink(bytes);
        return {};
      case State::chunk_data:
      case State::sized: {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
        sink(bytes.substr(0, size));
        bytes.remove_prefix(size);
        left_ -= size;
        if (left_ == 0) state_ = state_ == State::sized ? State::done : State::chunk_end;
        break;
      }
      default:
        TRY(text_byte(bytes.front()));
        bytes.remove_prefix(1);
    }
  }
  return {};
}

Result<void> HttpReply::text_byte(char c) {
  text_.push_back(c);
  if (state_ == State::head) {
    if (text_.size() > kMaxHead) return bad("its head is too long");
    return text_.ends_with("\r\n\r\n") ? read_head() : Result<void>();
  }
  if (c == '\n') return end_line();
  if (text_.size() > kMaxSizeLine && state_ != State::trailer) return bad("a chunk's size");
  if (text_.size() + trailers_ > kMaxHead) return bad("its trailers are too long");
  return {};
}

Result<void> HttpReply::read_head() {
  std::string_view head(text_);
  std::size_t end = head.find("\r\n");
  const std::string_view first = head.substr(0, end);
  std::uint64_t status = 0;
  const bool good = first.size() >= 12 && first.starts_with("HTTP/1.") && first[8] == ' ' &&
                    (first.size() == 12 || first[12] == ' ') &&
                    parse(first.substr(9, 3), 10, status) && status >= 100;
  if (!good) return bad("no HTTP/1 status line");
  for (head.remove_prefix(end + 2); !head.starts_with("\r\n"); head.remove_prefix(end + 2)) {
    end = head.find("\r\n");
    TRY(read_header(head.substr(0, end)));
  }
  text_.clear();
  if (status < 200) {  // an interim reply: the real one follows
    chunked_ = sized_ = false;
    return {};
  }
  status_ = static_cast<unsigned>(status);
  if (chunked_) {
    state_ = State::chunk_size;  // and a length beside it does not count: RFC 9112, 6.3
  } else if (status == 204 || status == 304 || (sized_ && left_ == 0)) {
    state_ = State::done;
  } else {
    state_ = sized_ ? State::sized : State::until_close;
  }
  return {};
}

Result<void> HttpReply::read_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bad("a header without a colon");
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trim(line.substr(colon + 1));
  if (same_letters(name, "transfer-encoding")) {
    if (!same_letters(value, "chunked")) return bad("a transfer encoding that nobody asked for");
    chunked_ = true;
  } else if (same_letters(name, "content-length")) {
    if (!parse(value, 10, left_)) return bad("its length");
    sized_ = true;
  }
  return {};
}

Result<void> HttpReply::end_line() {
  const std::string line(trim(std::string_view(text_).substr(0, text_.size() - 1)));
  const std::size_t size = std::exchange(text_, {}).size();
  switch (state_) {
    case State::chunk_size:
      return read_chunk_size(line);
    case State::chunk_end:
      if (!line.empty()) return bad("a chunk is longer than it says");
      state_ = State::chunk_size;
      return {};
    default:  // a trailer, or the empty line after them
      trailers_ += size;
      if (line.empty()) state_ = State::done;
      return {};
  }
}

Result<void> HttpReply::read_chunk_size(std::string_view line) {
  if (!parse(trim(line.substr(0, line.find(';'))), 16, left_)) return bad("a chunk's size");
  state_ = left_ == 0 ? State::trailer : State::chunk_data;
  return {};
}

Result<void> HttpReply::finish() {
  if (state_ == State::until_close) state_ = State::done;
  if (state_ == State::done) return {};
  return make_error(Errc::truncated, "HTTP reply: it ended too early");
}

void LineSplitter::feed(std::string_view bytes, const std::function<void(std::string_view)>& sink) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > limit_) {
      too_long_ = true;
      std::string().swap(line_);
    } else if (!too_long_) {
      line_ += piece;
    }
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (std::exchange(too_long_, false)) {
      ++dropped_;
    } else {
      if (line_.ends_with('\r')) line_.pop_back();
      if (!line_.empty()) sink(line_);
    }
    line_.clear();
  }
}

}  // namespace andiron::probe
