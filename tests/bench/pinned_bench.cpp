// SPDX-License-Identifier: MIT
//
// The pinned-ram fill as a program of its own, for scripts/bench.sh.
//   pinned_bench FILE    copies the file into a tmpfs in a mount namespace of its own, whose memory
//                        is made ready first, and prints "READ_MS CPU_MS PREFAULT_MS HUGE_BYTES":
//                        the reads, the CPU time of the thread that does them, and the rest apart
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>

#include "agent/base/clock.hpp"
#include "agent/base/units.hpp"
#include "agent/os/device.hpp"
#include "agent/os/pinned_mount.hpp"
#include "agent/stream/engine.hpp"
#include "agent/tier/pinned_ram.hpp"

namespace andiron {
namespace {

double ms(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

double thread_cpu_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

struct Copied {
  tier::PinnedOutcome outcome;
  double cpu_ms = 0;
};

Result<Copied> copy(const std::string& path, const std::string& work) {
  const os::PinnedPlaces places{work + "/writable", work + "/readable"};
  std::filesystem::create_directories(places.writable);
  std::filesystem::create_directories(places.readable);
  const os::FileInfo info = TRY(os::stat_path(path));
  os::PinnedMount mount = TRY(os::open_pinned_mount(places, info.identity.size + 64 * kMiB));
  const UniqueFd fd = TRY(os::open_regular(path));
  const os::DeviceTraits device = TRY(os::device_traits(fd.get()));

  tier::PinnedRequest request;
  request.files.push_back({path, info.identity});
  request.folder = std::make_shared<const tier::PinnedFolder>(
      TRY(tier::PinnedFolder::open(std::move(mount), places.readable)));
  request.prefault_first = true;
  const auto control = std::make_shared<stream::TransferControl>(std::nullopt);
  auto mailbox = TRY(Mailbox<tier::PinnedOutcome>::create());
  const auto done = std::make_shared<Mailbox<tier::PinnedOutcome>>(std::move(mailbox));
  const SystemClock clock;
  stream::RateLimiter limiter(0);
  const auto reads = stream::make_read_backend(32);
  stream::LaneContext lane{device, *reads, limiter, clock};
  // On this thread, so that its CPU time is the fill's; memory is made ready by others.
  const double before = thread_cpu_ms();
  tier::make_pinned_task(std::move(request), control, done)->run(lane);
  Copied copied{std::move(done->drain().at(0)), thread_cpu_ms() - before};
  if (copied.outcome.error) return *copied.outcome.error;
  return copied;
}

int main_of(const std::string& path) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    std::perror("a mount namespace");
    return 1;
  }
  std::string work = "/tmp/andiron-pinned-bench-XXXXXX";
  if (::mkdtemp(work.data()) == nullptr) return 1;
  const Result<Copied> copied = copy(path, work);
  ::umount2((work + "/readable").c_str(), MNT_DETACH);
  ::umount2((work + "/writable").c_str(), MNT_DETACH);
  std::filesystem::remove_all(work);
  if (!copied) {
    std::fprintf(stderr, "%s\n", copied.error().message().c_str());
    return 1;
  }
  const tier::PinnedOutcome& outcome = copied->outcome;
  for (const std::string& note : outcome.notes)
    std::fprintf(stderr, "note: %s\n", note.c_str());
  std::printf("%.1f %.1f %.1f %llu\n", ms(outcome.stages.read), copied->cpu_ms,
              ms(outcome.stages.place),
              static_cast<unsigned long long>(outcome.held.at(0).huge_bytes));
  return 0;
}

}  // namespace
}  // namespace andiron

int main(int argc, char** argv) {
  if (argc == 2) return andiron::main_of(argv[1]);
  std::fprintf(stderr, "usage: pinned_bench FILE\n");
  return 2;
}
