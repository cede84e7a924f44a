// SPDX-License-Identifier: MIT
//
// The page-cache fill as a program of its own, for scripts/bench.sh, which times it as it times the
// others and takes its CPU seconds from the kernel.
//   page_cache_bench cold FILE            drops the file's pages
//   page_cache_bench evicted FILE HOLE    loads the file as Andiron does, and drops a tenth of it:
//                                         HOLE MiB, nine times as much between two holes
//   page_cache_bench single FILE HOLE     the same share, with all that is resident in single pages
//   page_cache_bench fill FILE HOLD METHOD   HOLD: cached, mapped, locked; METHOD: automatic,
//                                         populate, readahead, reads
// cold, evicted and single print the bytes that are resident then; fill prints how long its stages
// took, and fails unless all of the file is resident.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/units.hpp"
#include "agent/os/device.hpp"
#include "agent/os/residency.hpp"
#include "agent/stream/engine.hpp"
#include "agent/tier/page_cache.hpp"

namespace andiron {
namespace {

constexpr int kPatience = 300000;  // ms

std::optional<tier::FillMethod> parse_method(std::string_view name) {
  if (name == "automatic") return tier::FillMethod::automatic;
  if (name == "populate") return tier::FillMethod::populate;
  if (name == "readahead") return tier::FillMethod::readahead_populate;
  if (name == "reads") return tier::FillMethod::buffered_reads;
  return std::nullopt;
}

Result<std::uint64_t> make_cold(const char* path) {
  const UniqueFd fd = TRY(os::open_regular(path));
  const os::FileInfo info = TRY(os::stat_fd(fd.get()));
  if (const int error = ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    return make_system_error(error, "posix_fadvise");
  }
  return os::read_residency(fd.get(), info.identity.size).resident_bytes.value_or(0);
}

/// Reads just the bytes between the holes: with FADV_RANDOM the kernel reads nothing around them,
/// and takes the smallest folios that there are.
Result<std::uint64_t> make_single_pages(const char* path, std::uint64_t hole) {
  TRY(make_cold(path));
  const UniqueFd fd = TRY(os::open_regular(path));
  const os::FileInfo info = TRY(os::stat_fd(fd.get()));
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  std::vector<char> buffer(kMiB);
  for (std::uint64_t at = 0; at < info.identity.size;) {
    const std::uint64_t in_block = kMiB - at % kMiB;
    if (at % (10 * hole) >= 9 * hole) {
      at += in_block;
      continue;
    }
    const ssize_t count = ::pread(fd.get(), buffer.data(), in_block, static_cast<off_t>(at));
    if (count < 0) return make_system_error(errno, "pread");
    if (count == 0) break;
    at += static_cast<std::uint64_t>(count);
  }
  return os::read_residency(fd.get(), info.identity.size).resident_bytes.value_or(0);
}

struct Filled {
  std::chrono::nanoseconds total;
  tier::StageTimes stages;
};

Result<Filled> fill(const char* path, Hold hold, tier::FillMethod method) {
  static const SystemClock clock;
  const SteadyTime begin = clock.now();
  tier::FillRequest request;
  request.hold = hold;
  request.method = method;
  const os::FileInfo info = TRY(os::stat_path(path));
  request.files.push_back({path, info.identity});
  const UniqueFd fd = TRY(os::open_regular(path));
  const os::DeviceTraits device = TRY(os::device_traits(fd.get()));
  const auto control = std::make_shared<stream::TransferControl>(std::nullopt);
  const auto done =
      std::make_shared<Mailbox<tier::FillOutcome>>(TRY(Mailbox<tier::FillOutcome>::create()));
  stream::Engine engine({}, clock);
  TRY(engine.submit(device, tier::make_fill_task(std::move(request), control, done)));
  pollfd ready{done->fd(), POLLIN, 0};
  if (::poll(&ready, 1, kPatience) != 1) return make_error(Errc::timeout, path);
  std::vector<tier::FillOutcome> outcomes = done->drain();
  tier::FillOutcome& outcome = outcomes.at(0);
  for (const std::string& note : outcome.notes)
    std::fprintf(stderr, "note: %s\n", note.c_str());
  if (outcome.error) return *outcome.error;
  if (outcome.held.at(0).resident_bytes != info.identity.size) {
    return make_error(Errc::io_error, "not all of it is resident");
  }
  return Filled{clock.now() - begin, outcome.stages};
}

void print(const Filled& filled) {
  const auto ms = [](std::chrono::nanoseconds time) {
    return static_cast<double>(time.count()) / 1e6;
  };
  std::printf("%.1f ms: locate %.1f, place %.1f, read %.1f, verify %.1f\n", ms(filled.total),
              ms(filled.stages.locate), ms(filled.stages.place), ms(filled.stages.read),
              ms(filled.stages.verify));
}

/// What reclaim leaves of a file that was loaded well: it takes whole folios. Holes have to be
/// multiples of a huge folio, since part of one cannot be dropped.
Result<std::uint64_t> make_evicted(const char* path, std::uint64_t hole) {
  TRY(make_cold(path));
  TRY(fill(path, Hold::cached, tier::FillMethod::automatic));
  const UniqueFd fd = TRY(os::open_regular(path));
  const os::FileInfo info = TRY(os::stat_fd(fd.get()));
  for (std::uint64_t at = 9 * hole; at < info.identity.size; at += 10 * hole) {
    const int error = ::posix_fadvise(fd.get(), static_cast<off_t>(at), static_cast<off_t>(hole),
                                      POSIX_FADV_DONTNEED);
    if (error != 0) return make_system_error(error, "posix_fadvise");
  }
  return os::read_residency(fd.get(), info.identity.size).resident_bytes.value_or(0);
}

int report(const Result<std::uint64_t>& resident) {
  if (resident) std::printf("%llu\n", static_cast<unsigned long long>(*resident));
  if (!resident) std::fprintf(stderr, "%s\n", resident.error().message().c_str());
  return resident ? 0 : 1;
}

int main_of(const std::vector<std::string_view>& words) {
  if (words.size() == 3 && words[1] == "cold") return report(make_cold(words[2].data()));
  if (words.size() == 4 && (words[1] == "evicted" || words[1] == "single")) {
    std::uint64_t hole = 0;
    std::from_chars(words[3].data(), words[3].data() + words[3].size(), hole);
    const auto make = words[1] == "single" ? make_single_pages : make_evicted;
    if (hole > 0 && hole < kMiB) return report(make(words[2].data(), hole * kMiB));
  }
  if (words.size() == 5 && words[1] == "fill") {
    const auto hold = parse_hold(words[3]);
    const auto method = parse_method(words[4]);
    if (hold && method) {
      const Result<Filled> filled = fill(words[2].data(), *hold, *method);
      if (filled) print(*filled);
      if (!filled) std::fprintf(stderr, "%s\n", filled.error().message().c_str());
      return filled ? 0 : 1;
    }
  }
  std::fprintf(stderr,
               "usage: cold FILE | evicted FILE MIB | single FILE MIB | fill FILE HOLD METHOD\n");
  return 2;
}

}  // namespace
}  // namespace andiron

int main(int argc, char** argv) { return andiron::main_of({argv, argv + argc}); }
