// SPDX-License-Identifier: MIT
#include "agent/base/mapped_region.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <limits>

#include "agent/base/check.hpp"

namespace andiron {

MappedRegion& MappedRegion::operator=(MappedRegion&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Result<MappedRegion> MappedRegion::map(int fd, std::uint64_t size, int protection, int flags) {
  CHECK(size > 0);
  if (size > std::numeric_limits<std::size_t>::max() / 2) {
    return make_error(Errc::too_large, "map");
  }
  void* data = ::mmap(nullptr, static_cast<std::size_t>(size), protection, flags, fd, 0);
  if (data == MAP_FAILED) return make_system_error(errno, "mmap");
  return MappedRegion(data, static_cast<std::size_t>(size));
}

Result<MappedRegion> MappedRegion::map_file(int fd, std::uint64_t size) {
  return map(fd, size, PROT_READ, MAP_SHARED);
}

Result<MappedRegion> MappedRegion::map_writable(int fd, std::uint64_t size) {
  return map(fd, size, PROT_READ | PROT_WRITE, MAP_SHARED);
}

Result<MappedRegion> MappedRegion::map_anonymous(std::uint64_t size) {
  return map(-1, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

Result<void> MappedRegion::make_read_only() const {
  if (::mprotect(data_, size_, PROT_READ) != 0) return make_system_error(errno, "mprotect");
  return {};
}

void MappedRegion::reset() noexcept {
  if (data_ != nullptr) {
    ::munmap(std::exchange(data_, nullptr), std::exchange(size_, 0));
  }
}

}  // namespace andiron
