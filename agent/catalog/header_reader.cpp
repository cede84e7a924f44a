// SPDX-License-Identifier: MIT
#include "agent/catalog/header_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace andiron::catalog {
namespace {
// One read of this size costs a disk no more than a 4 KiB one, and readahead is no larger by
// default (read_ahead_kb 128): a check of headers should not warm what nobody asked for.
constexpr std::size_t kBufferBytes = 64 * kKiB;
}  // namespace

HeaderReader HeaderReader::over_file(int fd, std::uint64_t size) { return {fd, size, {}}; }

HeaderReader HeaderReader::over_bytes(std::span<const std::byte> bytes) {
  return {-1, bytes.size(), bytes};
}

Result<void> HeaderReader::check_room(std::uint64_t count) const {
  if (count > remaining())
    return make_error(Errc::truncated, "header ends at byte " + std::to_string(size_));
  if (count > kMaxHeaderBytes || position_ > kMaxHeaderBytes - count)
    return make_error(Errc::too_large, "header of more than 64 MiB");
  return {};
}

Result<void> HeaderReader::fill() {
  buffer_.resize(kBufferBytes);
  const std::size_t wanted = std::min<std::uint64_t>(kBufferBytes, size_ - position_);
  ssize_t got = -1;
  do {
    got = ::pread(fd_, buffer_.data(), wanted, static_cast<off_t>(position_));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return make_system_error(errno, "read header");
  if (got == 0) return make_error(Errc::truncated, "file shrank while its header was read");
  window_ = std::span(buffer_).first(static_cast<std::size_t>(got));
  window_start_ = position_;
  return {};
}

Result<void> HeaderReader::read(std::span<std::byte> out) {
  TRY(check_room(out.size()));
  while (!out.empty()) {
    if (position_ < window_start_ || position_ >= window_start_ + window_.size()) TRY(fill());
    const auto available = window_.subspan(position_ - window_start_);
    const std::size_t count = std::min(available.size(), out.size());
    std::memcpy(out.data(), available.data(), count);
    out = out.subspan(count);
    position_ += count;
  }
  return {};
}

Result<void> HeaderReader::skip(std::uint64_t count) {
  TRY(check_room(count));
  position_ += count;
  return {};
}

Result<std::string> HeaderReader::read_string(std::uint64_t length) {
  TRY(check_room(length));
  std::string text(length, '\0');
  TRY(read(std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

}  // namespace andiron::catalog
