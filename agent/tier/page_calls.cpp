// SPDX-License-Identifier: MIT
#include "agent/tier/page_calls.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "agent/base/units.hpp"
#include "agent/os/memory.hpp"

namespace andiron::tier {
namespace {

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; glibc knows it from 2.35 on
#endif

std::uint64_t page_size() {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// 0, or the errno.
int try_lock(const MappedRegion& mapping, std::uint64_t offset, std::uint64_t length) {
  return ::mlock2(mapping.data() + offset, length, MLOCK_ONFAULT) == 0 ? 0 : errno;
}

std::string describe_limit(std::uint64_t locked, std::uint64_t size, int error) {
  std::string text = format_bytes(locked) + " of " + format_bytes(size) + " locked";
  if (const std::optional<std::uint64_t> limit = os::memlock_limit()) {
    text += ", RLIMIT_MEMLOCK is " + format_bytes(*limit);
  }
  return text + " (mlock2: " + std::generic_category().message(error) + ")";
}

}  // namespace

Result<Populated> populate(const MappedRegion& mapping, ByteRange range) {
  // The kernel wants the start on a page; the end it rounds up itself.
  const std::uint64_t begin = range.offset / page_size() * page_size();
  while (::madvise(mapping.data() + begin, range.end() - begin, MADV_POPULATE_READ) != 0) {
    switch (errno) {
      case EINTR:
      case EAGAIN:
        continue;
      case EFAULT:
        return Populated::fault;
      case EINVAL:
        return Populated::unsupported;
      case ENOMEM:
        return make_error(Errc::no_headroom, "MADV_POPULATE_READ: the kernel has no memory");
      default:
        return make_system_error(errno, "MADV_POPULATE_READ");
    }
  }
  return Populated::done;
}

void read_ahead(int fd, ByteRange range) noexcept {
  [[maybe_unused]] const int ignored = ::posix_fadvise(
      fd, static_cast<off_t>(range.offset), static_cast<off_t>(range.length), POSIX_FADV_WILLNEED);
}

void advise_for_filling(int fd) noexcept {
  // Advice: a kernel that does not take it reads in its own way.
  [[maybe_unused]] const int ignored = ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

bool advise_huge(const MappedRegion& mapping, ByteRange range) noexcept {
  const std::uint64_t begin = range.offset / page_size() * page_size();
  return ::madvise(mapping.data() + begin, range.end() - begin, MADV_HUGEPAGE) == 0;
}

bool all_resident(const MappedRegion& mapping, ByteRange range) {
  std::vector<unsigned char> pages((range.length + page_size() - 1) / page_size());
  while (::mincore(mapping.data() + range.offset, range.length, pages.data()) != 0) {
    if (errno != EAGAIN) return false;
  }
  return std::all_of(pages.begin(), pages.end(),
                     [](unsigned char page) { return (page & 1U) != 0; });
}

void advise_as_usual(int fd) noexcept {
  [[maybe_unused]] const int ignored = ::posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
}

PageLock lock_on_fault(const MappedRegion& mapping) {
  const std::uint64_t size = mapping.size();
  const int whole = try_lock(mapping, 0, size);
  if (whole == 0) return {size, std::nullopt};
  // Steps that halve where one does not fit, down to a page, find what is left of the limit
  // without knowing what else of this process, or of its user, counts against it.
  std::uint64_t step = std::max(page_size(), size / 2 / page_size() * page_size());
  std::uint64_t locked = 0;
  int error = whole;
  while (step >= page_size() && locked < size) {
    const int status = try_lock(mapping, locked, std::min(step, size - locked));
    if (status == 0) {
      locked = std::min(size, locked + step);
    } else {
      error = status;
      step = step / 2 / page_size() * page_size();
    }
  }
  if (locked == size) return {size, std::nullopt};
  return {locked, describe_limit(locked, size, error)};
}

}  // namespace andiron::tier
