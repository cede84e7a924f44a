// SPDX-License-Identifier: MIT
#include "agent/os/probe_os.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "agent/base/mapped_region.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/base/units.hpp"
#include "agent/os/file.hpp"
#include "agent/os/memory.hpp"
#include "agent/os/pressure.hpp"
#include "agent/os/privilege.hpp"
#include "agent/os/residency.hpp"

namespace andiron::os {
namespace {

using State = Capability::State;

/// Some pages on every architecture, and a multiple of every O_DIRECT alignment.
constexpr std::uint64_t kScratchBytes = 256 * kKiB;
/// Linux 5.14; the headers of a build machine may be older than the kernel that runs.
constexpr int kMadvPopulateRead = 22;

std::string words_of(int errno_value) { return std::generic_category().message(errno_value); }

/// A file without a name, all of it on the disk and, unless that is not possible, out of the cache.
class Scratch {
 public:
  static Result<Scratch> create(const std::string& folder) {
    UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!fd) {
      // Not all file systems have O_TMPFILE (NFS, older overlayfs).
      std::string name = folder + "/.andiron-probe-XXXXXX";
      fd = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
      if (!fd) return make_system_error(errno, "scratch file in " + folder);
      ::unlink(name.c_str());
    }
    const std::string bytes(kScratchBytes, 'a');
    if (::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
      return make_system_error(errno, "write a scratch file in " + folder);
    }
    ::fsync(fd.get());
    return Scratch(std::move(fd));
  }
  int fd() const { return fd_.get(); }
  void make_cold() const { ::posix_fadvise(fd(), 0, 0, POSIX_FADV_DONTNEED); }
  void make_warm() const {
    std::string bytes(kScratchBytes, '\0');
    [[maybe_unused]] const ssize_t count = ::pread(fd(), bytes.data(), bytes.size(), 0);
  }
  Residency residency(ResidencyMethod method) const {
    return read_residency(fd(), kScratchBytes, method);
  }

 private:
  explicit Scratch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

Capability probe_cachestat(const Scratch& scratch) {
  scratch.make_warm();
  const Residency found = scratch.residency(ResidencyMethod::cachestat);
  if (!found.resident_bytes) {
    return {"cachestat", State::degraded,
            found.reason + "; what is cached is counted with mincore instead, which is slower",
            "a kernel of 6.5 or later, and a container profile that allows cachestat"};
  }
  if (*found.resident_bytes != kScratchBytes) {
    return {"cachestat", State::degraded,
            fmt::format("it sees {} of {} bytes that were just read", *found.resident_bytes,
                        kScratchBytes),
            ""};
  }
  return {"cachestat", State::on, "it sees what was just read", ""};
}

Capability probe_mincore(const Scratch& scratch) {
  scratch.make_warm();
  const Residency found = scratch.residency(ResidencyMethod::mincore);
  if (found.resident_bytes != kScratchBytes) {
    return {"mincore", State::off,
            found.resident_bytes ? "it does not see what was just read" : found.reason, ""};
  }
  if (!has_effective_capability(CAP_FOWNER) || !in_first_user_namespace()) {
    return {"mincore", State::degraded,
            "the kernel tells this process only about files that it owns or may write; of others "
            "it is not known what is cached",
            "run the agent as root, with CAP_FOWNER"};
  }
  return {"mincore", State::on, "it sees what was just read, of every owner's files", ""};
}

Capability probe_mlock(const Scratch& scratch) {
  const std::optional<std::uint64_t> limit = memlock_limit();
  const char* remedy =
      "LimitMEMLOCK=infinity in the unit, or --cap-add IPC_LOCK or --ulimit memlock=-1 for a "
      "container";
  const Result<MappedRegion> region = MappedRegion::map_file(scratch.fd(), kScratchBytes);
  if (!region) return {"mlock", State::off, region.error().message(), ""};
  if (::mlock2(region->data(), region->size(), MLOCK_ONFAULT) != 0) {
    return {"mlock", State::off,
            fmt::format("{} when locking {}", words_of(errno), format_bytes(kScratchBytes)),
            remedy};
  }
  if (limit) {
    return {"mlock", State::degraded,
            fmt::format("at most {} may be locked; more is mapped only, which mild memory pressure "
                        "leaves alone",
                        format_bytes(*limit)),
            remedy};
  }
  return {"mlock", State::on, "no limit", ""};
}

Capability probe_pressure(const std::string& resource) {
  const std::string name = "psi-" + resource;
  const Result<Pressure> pressure = read_pressure(resource);
  if (!pressure) {
    return {name, State::off, pressure.error().message(),
            "boot with psi=1 on the kernel's command line"};
  }
  return {name, State::on,
          fmt::format("tasks waited {:.2f} % of the last minute", pressure->some.avg60), ""};
}

Capability probe_cgroup() {
  const Result<MemoryView> view = read_memory();
  if (!view) return {"cgroup-memory", State::off, view.error().message(), ""};
  if (view->limited_by == "machine") {
    return {"cgroup-memory", State::on,
            fmt::format("nothing limits this process below the machine's {}",
                        format_bytes(view->limit)),
            ""};
  }
  return {"cgroup-memory", State::degraded,
          fmt::format("the cgroup {} limits this process to {}, cached files included; past that, "
                      "warming one model evicts another",
                      view->limited_by, format_bytes(view->limit)),
          "raise the limit (MemoryMax= and MemoryHigh= of the unit, --memory of the container), or "
          "keep budget.ram well below it"};
}

Capability probe_direct_io(const Scratch& scratch) {
  const std::string path = fmt::format("/proc/self/fd/{}", scratch.fd());
  const UniqueFd direct(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  const auto off = [](int error) -> Capability {
    return {"direct-io", State::degraded,
            words_of(error) + "; reads go through the page cache instead", ""};
  };
  if (!direct) return off(errno);
  // Anonymous memory begins on a page, which is aligned for any device.
  const Result<MappedRegion> buffer = MappedRegion::map_anonymous(kScratchBytes);
  if (!buffer) return {"direct-io", State::off, buffer.error().message(), ""};
  scratch.make_cold();
  const Residency before = scratch.residency(ResidencyMethod::automatic);
  const ssize_t count = ::pread(direct.get(), buffer->data(), buffer->size(), 0);
  if (count < 0) return off(errno);
  const Residency after = scratch.residency(ResidencyMethod::automatic);
  if (count != static_cast<ssize_t>(kScratchBytes)) {
    return {"direct-io", State::degraded, fmt::format("a read gave {} bytes only", count), ""};
  }
  if (before.resident_bytes && after.resident_bytes > before.resident_bytes) {
    return {"direct-io", State::degraded,
            "the file system takes O_DIRECT but reads through the page cache all the same", ""};
  }
  return {"direct-io", State::on, "a direct read left the page cache alone", ""};
}

Capability probe_populate_read(const Scratch& scratch) {
  const Result<MappedRegion> region = MappedRegion::map_file(scratch.fd(), kScratchBytes);
  if (!region) return {"populate-read", State::off, region.error().message(), ""};
  scratch.make_cold();
  if (::madvise(region->data(), region->size(), kMadvPopulateRead) != 0) {
    return {"populate-read", State::degraded,
            words_of(errno) + "; files are read with ordinary reads, at more CPU time",
            "a kernel of 5.14 or later"};
  }
  const Residency found = scratch.residency(ResidencyMethod::automatic);
  if (found.resident_bytes && *found.resident_bytes != kScratchBytes) {
    return {"populate-read", State::degraded,
            fmt::format("it brought in {} of {} bytes", *found.resident_bytes, kScratchBytes), ""};
  }
  return {"populate-read", State::on, "it brought a cold file in", ""};
}

Capability probe_unified_memory() {
  const UnifiedMemory memory = detect_unified_memory();
  if (!memory.unified) return {"unified-memory", State::off, memory.why, ""};
  return {"unified-memory", State::on,
          memory.why +
              "; a cached model takes room from the GPU, so warming the page cache is off "
              "unless asked for",
          ""};
}

}  // namespace

std::vector<Capability> probe_os(const std::string& scratch_dir) {
  const Result<Scratch> scratch = Scratch::create(scratch_dir);
  const auto with_file = [&](const char* name, Capability (*probe)(const Scratch&)) {
    if (scratch) return probe(*scratch);
    return Capability{name, State::off, "not tried: " + scratch.error().message(),
                      "give the agent a folder to write in (--state-dir)"};
  };
  return {with_file("cachestat", probe_cachestat),
          with_file("mincore", probe_mincore),
          with_file("mlock", probe_mlock),
          probe_pressure("memory"),
          probe_pressure("io"),
          probe_cgroup(),
          with_file("direct-io", probe_direct_io),
          with_file("populate-read", probe_populate_read),
          probe_unified_memory()};
}

}  // namespace andiron::os
