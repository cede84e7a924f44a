// SPDX-License-Identifier: MIT
#include "agent/os/residency.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <string_view>
#include <system_error>

#include "agent/base/unique_fd.hpp"
#include "agent/base/units.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

// cachestat(2), Linux 6.5; the same number on all architectures. glibc and the headers of Debian 12
// do not know it.
constexpr long kCachestatNumber = 451;
struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct CachestatCounts {
  std::uint64_t cached;  // in pages, as all of them
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

/// One byte a page: 256 KiB of vector see 1 GiB of file with 4 KiB pages.
constexpr std::uint64_t kWindowPages = 262144;
/// What cachestat finds wholly absent or wholly present is not walked by mincore, which takes six
/// times as long a page (20 ms a GiB against 3.5). 512 pages, 2 MiB, is as long as a folio gets,
/// and calls of that size take no longer in sum than one for the whole file.
constexpr std::uint64_t kChunkPages = 512;
/// How far past the end of a file to look for pages that cannot be there: farther than any folio.
constexpr std::uint64_t kPastEnd = kGiB;

constexpr std::uint64_t kZfsMagic = 0x2FC12FC1;

constexpr const char* kForeignFile =
    "the kernel tells only the owner, a writer or CAP_FOWNER which pages are cached";

std::uint64_t page_size() {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::uint64_t pages_of(std::uint64_t bytes) {
  return bytes / page_size() + (bytes % page_size() != 0 ? 1 : 0);
}

/// Remembered for the process, since ENOSYS does not go away; EPERM is a matter of each file.
std::atomic<bool> g_no_cachestat{false};

/// Pages of [offset, offset + length) in the page cache. `length` more than 0: 0 means "to the end"
/// to the kernel.
Result<std::uint64_t> cachestat_pages(int fd, std::uint64_t offset, std::uint64_t length) {
  if (g_no_cachestat.load(std::memory_order_relaxed)) {
    return make_system_error(ENOSYS, "cachestat");
  }
  CachestatRange range{offset, length};
  CachestatCounts counts{};
  if (::syscall(kCachestatNumber, fd, &range, &counts, 0U) != 0) {
    const int error = errno;
    if (error == ENOSYS) g_no_cachestat.store(true, std::memory_order_relaxed);
    return make_system_error(error, "cachestat");
  }
  return counts.cached;
}

/// A mapping that is never touched, so that PROT_NONE is enough.
class Window {
 public:
  static Result<Window> map(int fd, std::uint64_t offset, std::uint64_t length) {
    constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (offset > kLimit || length > kLimit - offset) return make_error(Errc::too_large, "mmap");
    void* data = ::mmap(nullptr, length, PROT_NONE, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (data == MAP_FAILED) return make_system_error(errno, "mmap");
    return Window(data, length);
  }
  Window(Window&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), length_(other.length_) {}
  Window& operator=(Window&&) = delete;
  ~Window() {
    if (data_ != nullptr) ::munmap(data_, length_);
  }

  /// One byte a page, bit 0 set when it is resident.
  Result<void> mincore(std::vector<unsigned char>& pages) const {
    pages.resize(pages_of(length_));
    while (::mincore(data_, length_, pages.data()) != 0) {
      if (errno != EAGAIN) return make_system_error(errno, "mincore");
    }
    return {};
  }

 private:
  Window(void* data, std::uint64_t length) noexcept : data_(data), length_(length) {}
  void* data_;
  std::uint64_t length_;
};

/// The kernel does not refuse mincore(2) to a stranger: it calls every page resident. So ask for a
/// page far past the end, which cannot be: this takes file systems with id maps, user namespaces
/// and capabilities as they really are. nullopt where it cannot be asked.
Result<bool> mincore_tells_truth(int fd, std::uint64_t size) {
  const std::uint64_t past = (size / page_size() + 1) * page_size() + kPastEnd;
  const Window window = TRY(Window::map(fd, past, page_size()));
  std::vector<unsigned char> page;
  TRY(window.mincore(page));
  return (page.at(0) & 1U) == 0;
}

struct Sources {
  bool cachestat = false;
  bool mincore = false;
  std::string reason;  // when neither
};

Sources sources_for(int fd, std::uint64_t size, ResidencyMethod method) {
  Sources sources;
  struct statfs status {};
  if (::fstatfs(fd, &status) != 0) {
    sources.reason = "fstatfs: " + std::generic_category().message(errno);
    return sources;
  }
  const auto magic = static_cast<std::uint64_t>(static_cast<std::uint32_t>(status.f_type));
  if (magic == kZfsMagic) {
    sources.reason = "ZFS keeps file data in its own cache (ARC), which cannot be asked";
    return sources;
  }
  // Both may serve a file's pages from another inode's cache, and cachestat looks into their own,
  // which is empty; a mapping leads to the right one.
  const bool stacked = magic == OVERLAYFS_SUPER_MAGIC || magic == FUSE_SUPER_MAGIC;
  std::string why_not_cachestat = "cachestat does not see through this file system";
  if (method != ResidencyMethod::mincore && !stacked) {
    const Result<std::uint64_t> first = cachestat_pages(fd, 0, page_size());
    sources.cachestat = first.has_value();
    if (!first) why_not_cachestat = first.error().message();
  }
  if (method == ResidencyMethod::cachestat) {
    if (!sources.cachestat) sources.reason = why_not_cachestat;
    return sources;
  }
  const Result<bool> truth = mincore_tells_truth(fd, size);
  sources.mincore = truth && *truth;
  if (!sources.mincore && !sources.cachestat) {
    sources.reason = truth ? kForeignFile : truth.error().message();
  }
  return sources;
}

/// Resident bytes of [offset, offset + length), the last page for what the file has in it.
Result<std::uint64_t> count_by_cachestat(int fd, std::uint64_t size) {
  const std::uint64_t pages = TRY(cachestat_pages(fd, 0, size));
  const std::uint64_t tail = size % page_size();
  if (tail == 0) return pages * page_size();
  const std::uint64_t last = TRY(cachestat_pages(fd, size - tail, tail));
  // The two calls are not one moment: never below zero.
  return (pages - std::min(pages, last)) * page_size() + last * tail;
}

Result<std::uint64_t> count_by_mincore(int fd, std::uint64_t size) {
  std::vector<unsigned char> pages;
  std::uint64_t resident = 0;
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t length = std::min(size - at, kWindowPages * page_size());
    const Window window = TRY(Window::map(fd, at, length));
    TRY(window.mincore(pages));
    for (const unsigned char page : pages)
      resident += (page & 1U) * page_size();
    at += length;
    const std::uint64_t tail = size % page_size();
    if (at == size && tail != 0 && (pages.back() & 1U) != 0) resident -= page_size() - tail;
  }
  return resident;
}

/// Collects runs of missing bytes, in order of the file.
class MissingRanges {
 public:
  MissingRanges(std::uint64_t size, std::uint64_t merge_gap, std::size_t limit)
      : size_(size), merge_gap_(merge_gap), limit_(std::max<std::size_t>(limit, 1)) {}

  void add(std::uint64_t begin, std::uint64_t end) {
    end = std::min(end, size_);
    if (begin >= end) return;
    if (!ranges_.empty()) {
      ByteRange& last = ranges_.back();
      const std::uint64_t gap = begin - last.end();
      if (gap == 0 || gap < merge_gap_) {
        last.length = end - last.offset;
        return;
      }
    }
    if (ranges_.size() == limit_) {
      ranges_.back().length = size_ - ranges_.back().offset;
      full_ = true;
      return;
    }
    ranges_.push_back({begin, end - begin});
  }
  bool full() const { return full_; }
  std::vector<ByteRange> take() && { return std::move(ranges_); }

 private:
  std::uint64_t size_;
  std::uint64_t merge_gap_;
  std::size_t limit_;
  std::vector<ByteRange> ranges_;
  bool full_ = false;
};

Result<void> add_missing_pages(int fd, std::uint64_t at, std::uint64_t length,
                               std::vector<unsigned char>& pages, MissingRanges& missing) {
  const Window window = TRY(Window::map(fd, at, length));
  TRY(window.mincore(pages));
  for (std::size_t i = 0; i < pages.size() && !missing.full();) {
    std::size_t end = i;
    while (end < pages.size() && (pages[end] & 1U) == 0)
      ++end;
    missing.add(at + i * page_size(), at + end * page_size());
    i = end + 1;
  }
  return {};
}

/// A line of smaps may end with a path of any length, which does not matter to us.
constexpr std::size_t kSmapsLine = 512;

/// Adds up what is there of [begin, end) from the lines of smaps, whose areas come in order.
class PresentSums {
 public:
  PresentSums(std::uint64_t begin, std::uint64_t end) : begin_(begin), end_(end) {}

  /// False when no later line can matter.
  bool take(std::string_view line) {
    const std::size_t dash = line.find('-');
    const std::size_t space = line.find(' ');
    if (dash < space) {
      const auto from = parse_number(line.substr(0, dash), 16);
      const auto to = parse_number(line.substr(dash + 1, space - dash - 1), 16);
      if (from && to) {
        overlap_ = std::min(*to, end_) - std::min(std::max(*from, begin_), std::min(*to, end_));
        present_ = 0;
        return *from < end_;
      }
    }
    if (overlap_ == 0) return true;
    if (line.starts_with("Rss:")) {
      const std::vector<std::string_view> words = fields(line);
      if (words.size() >= 2) present_ = parse_number(words[1]).value_or(0) * kKiB;
    } else if (line.starts_with("ShmemPmdMapped:")) {
      const std::vector<std::string_view> words = fields(line);
      if (words.size() >= 2) present_in_.huge += parse_number(words[1]).value_or(0) * kKiB;
    } else if (line.starts_with("VmFlags:")) {
      const std::vector<std::string_view> flags = fields(line);
      if (std::find(flags.begin(), flags.end(), "lo") != flags.end()) {
        present_in_.locked += std::min(present_, overlap_);
      }
    }
    return true;
  }
  const PresentBytes& sums() const { return present_in_; }

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t overlap_ = 0;
  std::uint64_t present_ = 0;
  PresentBytes present_in_;
};

}  // namespace

Residency read_residency(int fd, std::uint64_t size, ResidencyMethod method) {
  if (size == 0) return {0, ""};
  const Sources sources = sources_for(fd, size, method);
  if (!sources.cachestat && !sources.mincore) return {std::nullopt, sources.reason};
  Result<std::uint64_t> resident =
      sources.cachestat ? count_by_cachestat(fd, size) : count_by_mincore(fd, size);
  if (!resident) return {std::nullopt, resident.error().message()};
  return {std::min(*resident, size), ""};
}

Result<std::vector<ByteRange>> missing_ranges(int fd, std::uint64_t size, std::uint64_t merge_gap,
                                              std::size_t limit) {
  MissingRanges missing(size, merge_gap, limit);
  if (size == 0) return std::move(missing).take();
  const Sources sources = sources_for(fd, size, ResidencyMethod::automatic);
  if (!sources.cachestat && !sources.mincore) {
    return make_error(Errc::unavailable, "residency: " + sources.reason);
  }
  if (sources.cachestat) {
    const std::uint64_t cached = TRY(cachestat_pages(fd, 0, size));
    if (cached == 0) missing.add(0, size);
    if (cached == 0 || cached >= pages_of(size)) return std::move(missing).take();
  }
  const std::uint64_t step = (sources.cachestat ? kChunkPages : kWindowPages) * page_size();
  std::vector<unsigned char> pages;
  for (std::uint64_t at = 0; at < size && !missing.full(); at += step) {
    const std::uint64_t length = std::min(size - at, step);
    if (sources.cachestat) {
      const std::uint64_t cached = TRY(cachestat_pages(fd, at, length));
      if (cached >= pages_of(length)) continue;
      // Where only cachestat may be asked, a mixed chunk is read again as a whole.
      if (cached == 0 || !sources.mincore) {
        missing.add(at, at + length);
        continue;
      }
    }
    TRY(add_missing_pages(fd, at, length, pages, missing));
  }
  return std::move(missing).take();
}

Result<PresentBytes> present_bytes(const MappedRegion& region) {
  if (!region) return PresentBytes{};
  const auto begin = reinterpret_cast<std::uintptr_t>(region.data());
  const UniqueFd fd(::open("/proc/self/smaps", O_RDONLY | O_CLOEXEC));
  if (!fd) return make_system_error(errno, "open /proc/self/smaps");
  PresentSums sum(begin, begin + region.size());
  std::array<char, 16384> buffer{};
  std::string line;
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_system_error(errno, "read /proc/self/smaps");
    if (count == 0) return sum.sums();
    for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(count))) {
      if (c != '\n') {
        if (line.size() < kSmapsLine) line += c;
        continue;
      }
      // The kernel walks page tables as it prints: ask for no more than needed.
      if (!sum.take(line)) return sum.sums();
      line.clear();
    }
  }
}

Result<std::uint64_t> locked_bytes(const MappedRegion& region) {
  return TRY(present_bytes(region)).locked;
}

}  // namespace andiron::os
