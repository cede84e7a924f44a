// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "agent/base/result.hpp"

namespace andiron {

/// Owns one mmap of a file or of anonymous memory, unmapped with its last byte.
/// A file mapping is never read from user space: its file may be truncated by its owner, and a
/// read would be SIGBUS. It is there to be advised, locked and counted.
class MappedRegion {
 public:
  MappedRegion() noexcept = default;
  MappedRegion(MappedRegion&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedRegion& operator=(MappedRegion&& other) noexcept;
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  ~MappedRegion() { reset(); }

  /// PROT_READ, MAP_SHARED, whole file. `size` in bytes, more than 0.
  static Result<MappedRegion> map_file(int fd, std::uint64_t size);
  /// The same, and writable: for a file that nobody else can cut short.
  static Result<MappedRegion> map_writable(int fd, std::uint64_t size);
  /// Private, zeroed, readable and writable.
  static Result<MappedRegion> map_anonymous(std::uint64_t size);

  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  std::size_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  void reset() noexcept;
  /// No write through it from now on. Errors: mprotect's.
  Result<void> make_read_only() const;

 private:
  MappedRegion(void* data, std::size_t size) noexcept : data_(data), size_(size) {}
  static Result<MappedRegion> map(int fd, std::uint64_t size, int protection, int flags);

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace andiron
