// SPDX-License-Identifier: MIT
#include "agent/tier/file_fill.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/base/units.hpp"
#include "agent/os/memory.hpp"
#include "agent/os/residency.hpp"
#include "agent/tier/page_calls.hpp"

namespace andiron::tier {
namespace {

/// While paused, how long one look at the control lasts: well below what anyone notices.
constexpr std::chrono::milliseconds kPauseSlice{20};
/// Between two looks at the memory: 25 ms of a fast disk, and the headroom is gigabytes.
constexpr std::uint64_t kHeadroomStep = 64 * kMiB;
constexpr int kHoleRounds = 3;
/// Resident gaps shorter than this between missing ranges are swallowed: the kernel skips what it
/// has, and a checkerboard would be a million calls.
constexpr std::uint64_t kMergeGap = 64 * kKiB;
constexpr std::size_t kMaxRanges = 65536;

/// Adds the time until it ends to one of the stages.
class StageTimer {
 public:
  StageTimer(const Clock& clock, std::chrono::nanoseconds& stage)
      : clock_(clock), stage_(stage), begin_(clock.now()) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() { stage_ += clock_.now() - begin_; }

 private:
  const Clock& clock_;
  std::chrono::nanoseconds& stage_;
  SteadyTime begin_;
};

}  // namespace

Result<void> FillRun::pace(std::uint64_t bytes) {
  lane.beat();
  TRY(control.check(lane.clock.now()));
  while (control.paused())
    TRY(lane.wait(control, kPauseSlice));
  const auto wait = lane.limiter.take(bytes, lane.clock.now());
  if (wait.count() > 0) TRY(lane.wait(control, wait));
  return {};
}

Result<void> FillRun::check_headroom(std::uint64_t mapped) const {
  if (request.min_available == 0) return {};
  const Result<os::MemoryView> memory = os::read_memory();
  if (!memory) return {};  // not known: the kernel still says ENOMEM before it is too late
  const std::uint64_t kept = mapped_unlocked + mapped;
  const std::uint64_t left = memory->available - std::min(memory->available, kept);
  if (left >= request.min_available) return {};
  return make_error(Errc::no_headroom, format_bytes(left) + " left, " +
                                           format_bytes(request.min_available) + " to be kept");
}

FileFill::FileFill(FillRun& run, const FillFile& file)
    : run_(run), file_(file), shape_(shape_for(run.lane.device, run.request.method)) {
  held_.path = file.path;
  held_.identity = file.identity;
  held_.hold = run.request.hold == Hold::protected_ ? Hold::mapped : run.request.hold;
  holds_ = held_.hold != Hold::cached;
}

Result<void> FileFill::fill() {
  TRY(locate().wrap(file_.path));
  if (held_.identity.size == 0) return {};
  TRY(place().wrap(file_.path));
  Result<void> filled = bring_in().wrap(file_.path);
  if (fill_map_) advise_as_usual(held_.fd.get());
  fill_map_.reset();
  if (!filled && filled.error().errc() != Errc::no_headroom) {
    run_.outcome.bytes_read += reported_;
    return filled;
  }
  TRY(verify().wrap(file_.path));
  if (filled && held_.resident_bytes < held_.identity.size) {
    note(format_bytes(held_.identity.size - held_.resident_bytes) +
         " still missing: the kernel takes pages back as they come");
  }
  return filled;
}

HeldFile FileFill::take() && {
  if (held_.hold == Hold::cached) {
    held_.mapping.reset();
    held_.fd.reset();
  }
  return std::move(held_);
}

Result<void> FileFill::locate() {
  const StageTimer timer(run_.lane.clock, run_.outcome.stages.locate);
  held_.fd = TRY(os::open_regular(file_.path));
  TRY(check_identity());
  const std::uint64_t size = held_.identity.size;
  if (size == 0) return {};
  if (const auto traits = os::filesystem_traits(held_.fd.get())) {
    in_memory_ = traits->memory_backed;
    if (!traits->page_cache_reliable) {
      note("the page cache of " + traits->type + " is no place to hold anything");
    }
  }
  const os::Residency residency = os::read_residency(held_.fd.get(), size);
  held_.resident_known = residency.resident_bytes.has_value();
  if (!held_.resident_known && !in_memory_) {
    note("residency unknown, all of it is read: " + residency.reason);
  }
  resident_before_ = in_memory_ ? size : residency.resident_bytes.value_or(0);
  missing_ = size - resident_before_;
  run_.control.add_done(resident_before_);
  return {};
}

Result<void> FileFill::place() {
  const StageTimer timer(run_.lane.clock, run_.outcome.stages.place);
  if (holds_) {
    held_.mapping = TRY(MappedRegion::map_file(held_.fd.get(), held_.identity.size));
  }
  if (held_.hold != Hold::locked) return {};
  const PageLock lock = lock_on_fault(held_.mapping);
  locked_until_ = lock.bytes;
  if (lock.reason) {
    held_.hold = Hold::mapped;
    if (!run_.outcome.lock_limit) run_.outcome.lock_limit = file_.path + ": " + *lock.reason;
  }
  return {};
}

Result<void> FileFill::bring_in() {
  const StageTimer timer(run_.lane.clock, run_.outcome.stages.read);
  TRY(run_.check_headroom(mapped_));
  const std::vector<ByteRange> missing = in_memory_ ? std::vector<ByteRange>{} : find_missing();
  if (!missing.empty() && shape_.method != FillMethod::buffered_reads) {
    fill_map_ = TRY(MappedRegion::map_file(held_.fd.get(), held_.identity.size));
    advise_for_filling(held_.fd.get(), fill_map_);
  }
  TRY(run_steps(plan_steps(missing, held_.identity.size, shape_.window, holds_), shape_.method));
  return fill_holes();
}

/// What WILLNEED reads ahead is paced when it is asked for; the rest when its turn comes.
Result<void> FileFill::run_steps(const std::vector<FillStep>& steps, FillMethod method) {
  const std::uint64_t ahead = method == FillMethod::readahead_populate ? shape_.ahead : 0;
  std::size_t asked = 0;  // steps before this one are paced, and asked for
  std::uint64_t in_flight = 0;
  for (std::size_t next = 0; next < steps.size(); ++next) {
    for (; asked < steps.size() && (asked <= next || in_flight < ahead); ++asked) {
      const FillStep& step = steps[asked];
      if (!step.missing) continue;
      TRY(run_.pace(step.range.length));
      in_flight += step.range.length;
      if (ahead == 0) continue;
      for (std::uint64_t at = step.range.offset; at < step.range.end(); at += shape_.chunk)
        read_ahead(held_.fd.get(), {at, std::min(shape_.chunk, step.range.end() - at)});
    }
    const FillStep& step = steps[next];
    if (!step.missing) TRY(run_.pace(0));
    TRY(do_step(step, method));
    if (step.missing) in_flight -= step.range.length;
  }
  return {};
}

Result<void> FileFill::do_step(const FillStep& step, FillMethod method) {
  if (step.missing) {
    if (method == FillMethod::buffered_reads || !can_populate_) {
      TRY(run_.reads.read(held_.fd.get(), step.range));
    } else {
      TRY(populate_missing(step.range));
    }
    progress(step.range.length);
  }
  if (holds_) TRY(map_into_holder(step.range));
  since_headroom_ += step.range.length;
  if (since_headroom_ < kHeadroomStep) return {};
  since_headroom_ = 0;
  return run_.check_headroom(mapped_);
}

Result<void> FileFill::populate_missing(ByteRange range) {
  switch (TRY(populate(fill_map_, range))) {
    case Populated::done:
      return {};
    case Populated::unsupported:
      can_populate_ = false;
      note("no MADV_POPULATE_READ here, falling back to buffered reads");
      return run_.reads.read(held_.fd.get(), range);
    case Populated::fault:
      return explain_fault(range);
  }
  return {};
}

/// A fault names neither errno nor place; a read of the same bytes does.
Result<void> FileFill::explain_fault(ByteRange range) {
  const os::FileInfo info = TRY(os::stat_fd(held_.fd.get()));
  if (info.identity.size < range.end()) {
    return make_error(Errc::stale, "cut to " + std::to_string(info.identity.size) + " bytes");
  }
  return run_.reads.read(held_.fd.get(), range);
}

/// With what is resident this only fills page tables; it is what makes pages `mapped`, and what
/// locks them where the mapping is locked on fault.
Result<void> FileFill::map_into_holder(ByteRange range) {
  if (!can_populate_) return {};
  switch (TRY(populate(held_.mapping, range))) {
    case Populated::done:
      break;
    case Populated::unsupported:
      can_populate_ = false;
      return {};
    case Populated::fault:
      TRY(explain_fault(range));
      return make_error(Errc::io_error,
                        "cannot be mapped at offset " + std::to_string(range.offset));
  }
  const std::uint64_t locked = std::min(range.end(), std::max(range.offset, locked_until_));
  // At most all of it: a hole is mapped twice.
  mapped_ = std::min(mapped_ + (range.end() - locked), held_.identity.size);
  return {};
}

/// Pages that a method did not bring in although it said so, or that went again before they were
/// mapped. Buffered reads, since whatever the first method met it would meet again.
Result<void> FileFill::fill_holes() {
  std::uint64_t before = 0;
  for (int round = 0; round < kHoleRounds && held_.resident_known && !in_memory_; ++round) {
    const std::vector<ByteRange> holes = find_missing();
    const std::uint64_t bytes = total_length(holes);
    // Where the kernel takes pages back as fast as they come, reading on would only be a load.
    if (bytes == 0 || (round > 0 && bytes > before / 2)) break;
    before = bytes;
    TRY(run_steps(plan_steps(holes, held_.identity.size, shape_.window, false),
                  FillMethod::buffered_reads));
  }
  return {};
}

Result<void> FileFill::verify() {
  const StageTimer timer(run_.lane.clock, run_.outcome.stages.verify);
  const std::uint64_t size = held_.identity.size;
  held_.resident_bytes = size;
  if (held_.resident_known && !in_memory_) {
    const os::Residency residency = os::read_residency(held_.fd.get(), size);
    held_.resident_known = residency.resident_bytes.has_value();
    held_.resident_bytes = residency.resident_bytes.value_or(size);
  }
  run_.outcome.bytes_read +=
      held_.resident_bytes - std::min(held_.resident_bytes, resident_before_);
  if (holds_ && !can_populate_) {
    note("not held: without MADV_POPULATE_READ pages cannot be mapped without touching them");
    held_.hold = Hold::cached;
  } else if (locked_until_ > 0) {
    held_.locked_bytes = os::locked_bytes(held_.mapping).value_or(0);
  }
  return check_identity();
}

Result<void> FileFill::check_identity() const {
  const os::FileInfo info = TRY(os::stat_fd(held_.fd.get()));
  if (info.identity == held_.identity) return {};
  if (info.identity.dev != held_.identity.dev || info.identity.ino != held_.identity.ino) {
    return make_error(Errc::stale, "another file has its place");
  }
  if (info.identity.size != held_.identity.size) {
    return make_error(Errc::stale, "it is " + std::to_string(info.identity.size) + " bytes, was " +
                                       std::to_string(held_.identity.size));
  }
  return make_error(Errc::stale, "it was written to, or its metadata changed");
}

std::vector<ByteRange> FileFill::find_missing() {
  const std::uint64_t size = held_.identity.size;
  Result<std::vector<ByteRange>> missing =
      os::missing_ranges(held_.fd.get(), size, kMergeGap, kMaxRanges);
  if (missing) return std::move(*missing);
  return {ByteRange{0, size}};  // that residency is unknown was noted by locate()
}

/// Swallowed gaps and hole rounds are read, and not missing bytes brought in.
void FileFill::progress(std::uint64_t bytes) {
  const std::uint64_t counted = std::min(bytes, missing_ - reported_);
  reported_ += counted;
  run_.control.add_done(counted);
}

void FileFill::note(const std::string& text) {
  run_.outcome.notes.push_back(file_.path + ": " + text);
}

}  // namespace andiron::tier
