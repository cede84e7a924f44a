// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "agent/base/check.hpp"
#include "agent/base/units.hpp"
#include "agent/os/path_opener.hpp"
#include "agent/os/residency.hpp"
#include "agent/tier/direct_copy.hpp"
#include "agent/tier/fill_run.hpp"
#include "agent/tier/page_calls.hpp"
#include "agent/tier/pinned_ram.hpp"
#include "agent/tier/prefault.hpp"

namespace andiron::tier {
namespace {

/// Memory is made ready so far ahead of the reads: an eighth of a second of a fast disk.
constexpr std::uint64_t kAhead = 512 * kMiB;
/// Zeroing takes one CPU a fifth of a second a GiB; a disk of 5 GB/s keeps one busy.
constexpr unsigned kPrefaultThreads = 2;
/// Between two looks at cancel, pressure, rate and memory.
constexpr std::uint64_t kWindow = 16 * kMiB;
constexpr std::uint64_t kPage = 4096;

class PinnedTask final : public stream::LaneTask {
 public:
  PinnedTask(PinnedRequest request, std::shared_ptr<stream::TransferControl> control,
             std::shared_ptr<Mailbox<PinnedOutcome>> done)
      : request_(std::move(request)), control_(std::move(control)), done_(std::move(done)) {
    outcome_.job = request_.job;
    for (const FillFile& file : request_.files)
      control_->add_total(file.identity.size);
  }

  void run(stream::LaneContext& lane) noexcept override {
    for (const FillFile& file : request_.files) {
      Result<void> status = control_->check(lane.clock.now()).wrap(file.path);
      if (status) status = copy(lane, file).wrap(file.path);
      if (status) continue;
      const Errc code = status.error().errc();
      if (!outcome_.error) outcome_.error = std::move(status).error();
      reads_.reset();
      // Reads that stay in the kernel write into the mapping: it stays as well, and so do we.
      if (lane.reads.in_flight() > 0) break;
      map_.reset();
      if (ends_all(code)) break;
    }
    report();
  }

  Priority priority() const noexcept override { return request_.priority; }

  void abandon() noexcept override {
    outcome_.error = make_error(Errc::cancelled, "the agent stops");
    report();
  }

 private:
  Result<void> copy(stream::LaneContext& lane, const FillFile& file);
  Result<bool> adopt(stream::LaneContext& lane, const FillFile& file);
  Result<void> fill(stream::LaneContext& lane, int source, const FillFile& file,
                    const MappedRegion& map);
  Result<void> hold(PinnedFile held, const PageLock& lock);
  void note(const FillFile& file, const std::string& text) {
    outcome_.notes.push_back(file.path + ": " + text);
  }
  void report() {
    CHECK(done_ != nullptr);  // once
    std::exchange(done_, nullptr)->push(std::move(outcome_));
  }

  PinnedRequest request_;
  std::shared_ptr<stream::TransferControl> control_;
  std::shared_ptr<Mailbox<PinnedOutcome>> done_;
  PinnedOutcome outcome_;
  /// Of the copy in the making: the task's, so that reads which the kernel keeps find it there.
  MappedRegion map_;
  std::unique_ptr<DirectCopy> reads_;
};

Result<void> PinnedTask::copy(stream::LaneContext& lane, const FillFile& file) {
  const UniqueFd source = TRY(os::PathOpener().open_regular(file.path));
  TRY(check_identity(source.get(), file.identity));
  if (TRY(adopt(lane, file))) return {};

  CopyDraft draft = TRY(request_.folder->begin(file.identity));
  PageLock lock;
  if (file.identity.size > 0) {
    TRY(check_available(request_.min_available, file.identity.size));
    map_ = TRY(
        MappedRegion::map_writable(draft.fd(), (file.identity.size + kPage - 1) / kPage * kPage));
    lock = lock_on_fault(map_);
    TRY(fill(lane, source.get(), file, map_));
    TRY(map_.make_read_only());
  }
  TRY(check_identity(source.get(), file.identity));
  const CopyAccess access = TRY(access_of_copy(file.path, source.get()));
  TRY(request_.folder->publish(draft, {file.path, file.identity, {}}, access));
  PinnedFile held;
  held.path = file.path;
  held.identity = file.identity;
  held.fd = TRY(request_.folder->open_copy(file.identity));
  held.mapping = std::move(map_);
  return hold(std::move(held), lock);
}

/// A copy that is there is taken when it is proved to be what was read; else it goes.
Result<bool> PinnedTask::adopt(stream::LaneContext& lane, const FillFile& file) {
  const StageTimer timer(lane.clock, outcome_.stages.verify);
  const auto manifest = TRY(request_.folder->find(file.identity));
  if (!manifest) {
    TRY(request_.folder->remove(file.identity));
    return false;
  }
  PinnedFile held;
  held.path = file.path;
  held.identity = file.identity;
  held.fd = TRY(request_.folder->open_copy(file.identity));
  held.adopted = true;
  held.sealed = manifest->checksums.has_value();
  if (held.sealed) {
    const Checksums found = TRY(sum_up(held.fd.get(), file.identity.size));
    lane.beat();
    if (found != *manifest->checksums) {
      note(file, "the copy in memory was not what was read; it is made anew");
      TRY(request_.folder->remove(file.identity));
      return false;
    }
  }
  PageLock lock;
  if (file.identity.size > 0) {
    held.mapping = TRY(MappedRegion::map_file(held.fd.get(), file.identity.size));
    lock = lock_on_fault(held.mapping);
    TRY(populate(held.mapping, {0, file.identity.size}));
  }
  control_->add_done(file.identity.size);
  TRY(hold(std::move(held), lock));
  return true;
}

Result<void> PinnedTask::fill(stream::LaneContext& lane, int source, const FillFile& file,
                              const MappedRegion& map) {
  const std::uint64_t size = file.identity.size;
  reads_ = std::make_unique<DirectCopy>(lane, source, size, map);
  {
    const StageTimer timer(lane.clock, outcome_.stages.locate);
    reads_->prepare();
  }
  Prefault memory(map, request_.prefault_first ? map.size() : kAhead, kPrefaultThreads);
  const auto ready = [&](std::uint64_t end) {
    const StageTimer timer(lane.clock, outcome_.stages.place);
    return memory.wait_for(end, lane, *control_);
  };
  if (request_.prefault_first) TRY(ready(map.size()));
  const auto count = [&](std::uint64_t bytes) {
    outcome_.bytes_read += bytes;
    control_->add_done(bytes);
  };
  for (std::uint64_t at = 0; at < size; at += kWindow) {
    const std::uint64_t end = std::min(at + kWindow, size);
    TRY(pace(lane, *control_, end - at));
    // A whole region is registered at once, which brings it in: let the threads do that.
    TRY(ready(std::min<std::uint64_t>(
        (end + Prefault::kStep * 2 - 1) / (Prefault::kStep * 2) * (Prefault::kStep * 2),
        map.size())));
    TRY(check_available(request_.min_available, 0));
    const StageTimer timer(lane.clock, outcome_.stages.read);
    count(TRY(reads_->read_until(end)));
  }
  {
    const StageTimer timer(lane.clock, outcome_.stages.read);
    count(TRY(reads_->finish()));
  }
  // A direct read of the last block may bring more than the file has.
  std::memset(map.data() + size, 0, map.size() - size);
  reads_->leave_cold();
  for (const std::string& text : reads_->notes())
    note(file, text);
  reads_.reset();
  return {};
}

Result<void> PinnedTask::hold(PinnedFile held, const PageLock& lock) {
  if (const auto present = os::present_bytes(held.mapping)) {
    held.locked_bytes = std::min(present->locked, held.identity.size);
    held.huge_bytes = std::min(present->huge, held.identity.size);
  }
  // On a mount that never swaps, what is there stays without a lock.
  if (lock.reason && !request_.folder->noswap() && !outcome_.lock_limit) {
    outcome_.lock_limit = held.path + ": " + *lock.reason;
  }
  outcome_.held.push_back(std::move(held));
  return {};
}

}  // namespace

std::unique_ptr<stream::LaneTask> make_pinned_task(PinnedRequest request,
                                                   std::shared_ptr<stream::TransferControl> control,
                                                   std::shared_ptr<Mailbox<PinnedOutcome>> done) {
  return std::make_unique<PinnedTask>(std::move(request), std::move(control), std::move(done));
}

Result<void> seal(const PinnedFolder& folder, const std::string& source,
                  const os::FileIdentity& identity) {
  const UniqueFd fd = TRY(folder.open_copy(identity));
  return folder.write_manifest({source, identity, TRY(sum_up(fd.get(), identity.size))});
}

}  // namespace andiron::tier
