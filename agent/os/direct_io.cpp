// SPDX-License-Identifier: MIT
#include "agent/os/direct_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "agent/base/mapped_region.hpp"

namespace andiron::os {
namespace {

/// The page size, and the largest block size of today's disks.
constexpr std::uint32_t kUsual = 4096;
/// Past this no buffer of ours is aligned by itself.
constexpr std::uint32_t kLargest = 1U << 20;

Error no_direct_io(const std::string& why) {
  return make_error(Errc::unavailable, "no direct I/O on this file: " + why);
}

/// What statx says: 0 is that the file cannot; nullopt that it does not say.
std::optional<std::uint32_t> reported(int fd) {
#ifdef STATX_DIOALIGN
  struct statx about {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) != 0) return std::nullopt;
  if ((about.stx_mask & STATX_DIOALIGN) == 0) return std::nullopt;
  if (about.stx_dio_offset_align == 0) return 0;
  return std::max(about.stx_dio_mem_align, about.stx_dio_offset_align);
#else
  static_cast<void>(fd);
  return std::nullopt;
#endif
}

Result<void> prove(int fd, std::uint32_t alignment) {
  const MappedRegion block = TRY(MappedRegion::map_anonymous(std::max(alignment, kUsual)));
  if (::pread(fd, block.data(), alignment, 0) >= 0) return {};
  return no_direct_io(std::strerror(errno));
}

}  // namespace

Result<DirectFile> open_direct(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  DirectFile file;
  file.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  if (!file.fd) return no_direct_io(std::strerror(errno));
  const std::optional<std::uint32_t> said = reported(file.fd.get());
  if (said == 0U) return no_direct_io("the file system says so");
  file.alignment = said.value_or(kUsual);
  if (file.alignment > kLargest || (file.alignment & (file.alignment - 1)) != 0) {
    return no_direct_io("it wants an alignment of " + std::to_string(file.alignment));
  }
  TRY(prove(file.fd.get(), file.alignment));
  return file;
}

}  // namespace andiron::os
