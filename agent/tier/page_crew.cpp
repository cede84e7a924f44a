// SPDX-License-Identifier: MIT
#include "agent/tier/page_crew.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "agent/base/unique_fd.hpp"
#include "agent/os/file.hpp"

namespace andiron::tier {
namespace {

/// Filling page tables takes 0.06 to 0.1 CPU seconds a GiB where folios are small (one page each),
/// a tenth of that where they are large: two keep up with a disk of 20 GB/s that has a tenth to
/// read.
constexpr std::size_t kMappers = 2;

}  // namespace

Result<void> PageCrew::prepare(std::uint64_t size) {
  map_ = TRY(MappedRegion::map_file(fd_, size));
  advise_for_filling(fd_);
  return {};
}

bool PageCrew::reads_huge(ByteRange range) const {
  const std::uint64_t begin = (range.offset + kHugeFolio - 1) / kHugeFolio * kHugeFolio;
  if (begin + kHugeFolio > range.end()) return false;
  if (!advise_huge(map_, {begin, kHugeFolio})) return false;
  const Result<Populated> populated = populate(map_, {begin, 1});
  if (!populated || *populated != Populated::done) return false;
  return all_resident(map_, {begin, kHugeFolio});
}

void PageCrew::run(StepQueue& queue) {
  std::vector<std::thread> threads;
  // Born with every signal blocked, as lanes are.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (std::size_t i = 1; i < std::min<std::size_t>(shape_.threads, queue.missing()); ++i)
      threads.emplace_back([this, &queue] { help_reading(queue); });
    // Where nothing is missing, the lane's own thread is one of them.
    for (std::size_t i = queue.missing() > 0 ? 0 : 1; i < std::min(kMappers, queue.resident()); ++i)
      threads.emplace_back([this, &queue] { work(queue, Role::mapper, fd_, map_); });
  } catch (const std::system_error&) {
    // No more threads to be had: those that there are do it.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  work(queue, Role::reader, fd_, map_);
  for (std::thread& thread : threads)
    thread.join();
}

/// A helper opens the file anew: read-ahead state belongs to an open file, and windows that are
/// read side by side through one would each ruin the other's.
void PageCrew::help_reading(StepQueue& queue) noexcept {
  Result<UniqueFd> own = os::open_regular("/proc/self/fd/" + std::to_string(fd_));
  if (!own) return;
  Result<MappedRegion> map = MappedRegion::map_file(own->get(), map_.size());
  if (!map) return;
  advise_for_filling(own->get());
  work(queue, Role::reader, own->get(), *map);
}

void PageCrew::work(StepQueue& queue, Role role, int fd, const MappedRegion& map) noexcept {
  while (const std::optional<StepQueue::Work> work = queue.take(role)) {
    Result<Populated> populated = bring(*work, fd, map);
    if (!populated) return queue.stop(std::move(populated).error());
    switch (*populated) {
      case Populated::unsupported:
        unsupported_.store(true);
        return queue.stop();
      case Populated::fault:
        return queue.stop_at_fault(work->index);
      case Populated::done:
        queue.done(work->index);
        break;
    }
    if (Result<void> fine = account_.after(work->step.range); !fine) {
      return queue.stop(std::move(fine).error());
    }
  }
}

/// What WILLNEED reads is paced when it is asked for, the rest when its turn comes.
Result<Populated> PageCrew::bring(const StepQueue::Work& work, int fd,
                                  const MappedRegion& map) const {
  const FillStep& step = work.step;
  for (const ByteRange& range : work.ahead) {
    TRY(run_.pace(range.length));
    for (std::uint64_t at = range.offset; at < range.end(); at += shape_.chunk)
      read_ahead(fd, {at, std::min(shape_.chunk, range.end() - at)});
  }
  TRY(run_.pace(step.missing && !step.ask_ahead ? step.range.length : 0));
  if (step.missing) {
    if (!step.ask_ahead) advise_huge(map, step.range);
    const Populated populated = TRY(populate(map, step.range));
    if (populated != Populated::done) return populated;
    account_.add_read(step.range.length);
  }
  if (!holder_) return Populated::done;
  const Populated populated = TRY(populate(holder_, step.range));
  if (populated == Populated::done) account_.add_mapped(step.range);
  return populated;
}

}  // namespace andiron::tier
