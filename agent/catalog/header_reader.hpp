// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/units.hpp"

namespace andiron::catalog {

/// How much of a file may be its header. The largest seen are tokenizers of some 15 MB in GGUF;
/// safetensors' own readers stop at 100 MB.
inline constexpr std::uint64_t kMaxHeaderBytes = 64 * kMiB;

/// Reads a header forwards in little-endian pieces, from a file by pread(2) (a mapping would be
/// SIGBUS when the file's owner truncates it) or from memory. Never beyond kMaxHeaderBytes.
/// Thread: one. Blocks: over a file, as its file system does. Owns: a 64 KiB buffer, not the fd.
/// On failure: truncated past the end, too_large past the bound, or pread's error.
class HeaderReader {
 public:
  /// `size` is the file's, from fstat: the end that lengths in the header are checked against.
  static HeaderReader over_file(int fd, std::uint64_t size);
  static HeaderReader over_bytes(std::span<const std::byte> bytes);

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t size() const noexcept { return size_; }
  std::uint64_t remaining() const noexcept { return size_ - position_; }

  Result<void> read(std::span<std::byte> out);
  Result<void> skip(std::uint64_t count);
  /// `length` is checked against the file and the bound before anything is allocated.
  Result<std::string> read_string(std::uint64_t length);

  template <class T>
  Result<T> read_le() {
    static_assert(std::is_unsigned_v<T>);
    std::byte raw[sizeof(T)];
    TRY(read(raw));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value |= std::to_integer<std::uint64_t>(raw[i]) << (8 * i);
    return static_cast<T>(value);
  }

 private:
  HeaderReader(int fd, std::uint64_t size, std::span<const std::byte> window) noexcept
      : fd_(fd), size_(size), window_(window) {}
  Result<void> check_room(std::uint64_t count) const;
  Result<void> fill();

  int fd_;
  std::uint64_t size_;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;      // over a file only
  std::span<const std::byte> window_;  // what is in memory now
  std::uint64_t window_start_ = 0;     // its place in the file
};

}  // namespace andiron::catalog
