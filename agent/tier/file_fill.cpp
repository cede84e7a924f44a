// SPDX-License-Identifier: MIT
#include "agent/tier/file_fill.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/base/units.hpp"
#include "agent/os/path_opener.hpp"
#include "agent/os/residency.hpp"
#include "agent/tier/page_calls.hpp"

namespace andiron::tier {
namespace {

constexpr int kHoleRounds = 3;
/// Resident gaps shorter than this between missing ranges are swallowed: the kernel skips what it
/// has, and a checkerboard would be one call a page.
constexpr std::uint64_t kMergeGap = 64 * kKiB;
/// 1 MiB of ranges; past them the rest of the file counts as missing.
constexpr std::size_t kMaxRanges = 65536;

}  // namespace

FileFill::FileFill(FillRun& run, const FillFile& file)
    : run_(run), file_(file), account_(run, file.identity.size) {
  held_.path = file.path;
  held_.identity = file.identity;
  held_.hold = run.request.hold;
  holds_ = held_.hold != Hold::cached;
}

Result<void> FileFill::fill() {
  TRY(locate().wrap(file_.path));
  if (held_.identity.size == 0) return {};
  TRY(place().wrap(file_.path));
  Result<void> filled = bring_in().wrap(file_.path);
  if (!filled && filled.error().errc() != Errc::no_headroom) {
    run_.outcome.bytes_read += account_.read();
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
  held_.fd = TRY(os::PathOpener().open_regular(file_.path));
  TRY(check_identity(held_.fd.get(), held_.identity));
  const std::uint64_t size = held_.identity.size;
  if (size == 0) return {};
  if (const auto traits = os::filesystem_traits(held_.fd.get())) {
    in_memory_ = traits->memory_backed;
    if (!traits->page_cache_reliable) {
      note("the page cache of " + traits->type + " is no place to hold anything");
    }
  }
  if (!in_memory_) find_missing();
  const std::uint64_t missing = total_length(missing_);
  resident_before_ = size - missing;
  account_.set_missing(missing);
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
  account_.set_locked_until(lock.bytes);
  if (lock.reason) {
    held_.hold = Hold::mapped;
    if (!run_.outcome.lock_limit) run_.outcome.lock_limit = file_.path + ": " + *lock.reason;
  }
  return {};
}

Result<void> FileFill::bring_in() {
  const StageTimer timer(run_.lane.clock, run_.outcome.stages.read);
  TRY(run_.check_headroom(0));
  const std::uint64_t size = held_.identity.size;
  std::vector<ByteRange> missing = merge_close(missing_, kMergeGap);
  FillShape shape = shape_for(run_.lane.device, run_.request.method);
  if (shape.method == FillMethod::buffered_reads) {
    TRY(read_steps(plan_steps(missing, size, shape, false)));
    missing.clear();
  }
  PageCrew crew(run_, account_, shape, held_.fd.get(), held_.mapping);
  if (!missing.empty()) {
    TRY(crew.prepare(size));
    if (shape.prove_huge) shape = proven(shape, crew, missing);
  }
  TRY(populate_steps(crew, plan_steps(missing, size, shape, holds_), shape.ahead));
  TRY(fill_holes(crew, shape));
  advise_as_usual(held_.fd.get());
  return {};
}

/// Where read-ahead is short, populating is only fast when the kernel makes up for it.
FillShape FileFill::proven(const FillShape& shape, const PageCrew& crew,
                           const std::vector<ByteRange>& missing) const {
  const auto large = std::find_if(missing.begin(), missing.end(), [](const ByteRange& range) {
    return range.length >= 2 * kHugeFolio;  // whatever its start, a whole one lies in it
  });
  if (large == missing.end() || crew.reads_huge(*large)) return shape;
  return with_method(shape, FillMethod::readahead_populate);
}

Result<void> FileFill::read_steps(const std::vector<FillStep>& steps) {
  for (const FillStep& step : steps) {
    if (!step.missing) continue;
    TRY(run_.pace(step.range.length));
    TRY(run_.reads.read(held_.fd.get(), step.range));
    account_.add_read(step.range.length);
    TRY(account_.after(step.range));
  }
  return {};
}

Result<void> FileFill::populate_steps(PageCrew& crew, std::vector<FillStep> steps,
                                      std::uint64_t ahead) {
  StepQueue queue(std::move(steps), ahead);
  for (;;) {
    crew.run(queue);
    if (std::optional<Error> error = queue.take_error()) return std::move(*error);
    if (crew.unsupported()) {
      note("no MADV_POPULATE_READ here, falling back to buffered reads");
      return read_steps(queue.rest());
    }
    const std::optional<std::size_t> fault = queue.take_fault();
    if (!fault) return {};
    TRY(mend(queue.step(*fault)));
    queue.done(*fault);
    queue.restart();
  }
}

/// A fault names neither errno nor place; a read of the same bytes does, or goes well.
Result<void> FileFill::mend(const FillStep& step) {
  const os::FileInfo info = TRY(os::stat_fd(held_.fd.get()));
  if (info.identity.size < step.range.end()) {
    return make_error(Errc::stale, "cut to " + std::to_string(info.identity.size) + " bytes");
  }
  TRY(run_.reads.read(held_.fd.get(), step.range));
  if (step.missing) account_.add_read(step.range.length);
  if (!holds_) return {};
  if (TRY(populate(held_.mapping, step.range)) != Populated::done) {
    return make_error(Errc::io_error,
                      "cannot be mapped at offset " + std::to_string(step.range.offset));
  }
  account_.add_mapped(step.range);
  return {};
}

/// Pages that a method did not bring in although it said so, or that went again. By buffered
/// reads, since whatever the method met it would meet again.
Result<void> FileFill::fill_holes(PageCrew& crew, const FillShape& shape) {
  const std::uint64_t size = held_.identity.size;
  cannot_map_ = crew.unsupported();
  std::uint64_t before = size;
  for (int round = 0; round < kHoleRounds; ++round) {
    measure();
    // Where the kernel takes pages back as fast as they come, reading on would only be a load.
    const std::uint64_t bytes = size - held_.resident_bytes;
    if (bytes == 0 || (round > 0 && bytes > before / 2)) return {};
    before = bytes;
    measured_ = false;
    find_missing();
    TRY(read_steps(plan_steps(merge_close(missing_, kMergeGap), size, shape, false)));
    if (holds_ && !cannot_map_) TRY(populate_steps(crew, plan_steps({}, size, shape, true), 0));
  }
  return {};
}

void FileFill::measure() {
  const std::uint64_t size = held_.identity.size;
  held_.resident_bytes = size;
  if (in_memory_) return;
  const os::Residency residency = os::read_residency(held_.fd.get(), size);
  held_.resident_known = residency.resident_bytes.has_value();
  held_.resident_bytes = residency.resident_bytes.value_or(size);
  measured_ = true;
}

Result<void> FileFill::verify() {
  const StageTimer timer(run_.lane.clock, run_.outcome.stages.verify);
  if (!measured_) measure();
  run_.outcome.bytes_read +=
      held_.resident_bytes - std::min(held_.resident_bytes, resident_before_);
  if (holds_ && cannot_map_) {
    note("not held: without MADV_POPULATE_READ pages cannot be mapped without touching them");
    held_.hold = Hold::cached;
  } else if (account_.locked_until() > 0) {
    held_.locked_bytes = os::locked_bytes(held_.mapping).value_or(0);
  } else if (held_.hold == Hold::protected_) {
    see_charges();
  }
  return check_identity(held_.fd.get(), held_.identity);
}

/// Who first touched a page pays for it, and only what we pay for is protected.
void FileFill::see_charges() {
  const auto charges = run_.request.protection->charged_elsewhere(held_.mapping);
  std::uint64_t bytes = 0;
  std::string to_whom;
  if (charges) {
    for (const os::Charge& charge : *charges)
      bytes += charge.bytes;
    if (bytes > 0) to_whom = charges->front().cgroup;
    if (to_whom.empty()) to_whom = "a cgroup that is gone";
  } else {
    bytes = std::min(resident_before_, held_.resident_bytes);
    to_whom = "whoever read them first";
  }
  if (bytes == 0 || run_.outcome.lock_limit) return;
  run_.outcome.lock_limit =
      file_.path + ": " + format_bytes(std::min(bytes, held_.identity.size)) + " are charged to " +
      to_whom + ", where nothing protects them; `andironctl warm --recharge` moves them";
}

/// One walk, since it takes 10 ms a GiB of small folios, which is a tenth of what a tenth of that
/// GiB takes to read.
void FileFill::find_missing() {
  const std::uint64_t size = held_.identity.size;
  Result<std::vector<ByteRange>> missing = os::missing_ranges(held_.fd.get(), size, 0, kMaxRanges);
  if (missing) {
    missing_ = std::move(*missing);
    return;
  }
  missing_ = {{0, size}};
  if (!held_.resident_known) return;
  held_.resident_known = false;
  note("all of it is read: " + missing.error().context);
}

void FileFill::note(const std::string& text) {
  run_.outcome.notes.push_back(file_.path + ": " + text);
}

}  // namespace andiron::tier
