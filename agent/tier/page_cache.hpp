// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/mailbox.hpp"
#include "agent/base/mapped_region.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/os/cgroup.hpp"
#include "agent/os/file.hpp"
#include "agent/stream/engine.hpp"

namespace andiron::tier {

/// One file kept in the page cache, and how. Born complete; ending it unlocks and unmaps, which
/// walks its pages: not on the control loop for big files (hand it to the slow lane).
/// With hold `cached` it owns nothing: no fd that would keep a deleted file's blocks.
struct HeldFile {
  std::string path;
  os::FileIdentity identity;
  Hold hold = Hold::cached;          // what all of the file has: `mapped` when only some is locked
  UniqueFd fd;                       // `mapped` and firmer
  MappedRegion mapping;              // `mapped` and firmer, never of an empty file; MADV_NORMAL
  std::uint64_t resident_bytes = 0;  // as verified when the fill ended
  bool resident_known = true;        // false: resident_bytes is what was brought in, not proved
  std::uint64_t locked_bytes = 0;    // smaps Locked
};

/// How pages are brought in; the fastest for a device differs (fill_shape.hpp).
enum class FillMethod { automatic, populate, readahead_populate, buffered_reads };

struct FillFile {
  std::string path;           // as os::PathOpener takes it
  os::FileIdentity identity;  // what it must still be: else stale
};

/// A model's files on one device, to be filled on that device's lane.
struct FillRequest {
  std::uint64_t job = 0;
  std::vector<FillFile> files;
  Hold hold = Hold::mapped;
  Priority priority = Priority::normal;
  FillMethod method = FillMethod::automatic;
  /// For hold `protected_`: what keeps the pages, or why nothing does; then the hold is `mapped`.
  std::shared_ptr<const os::MemoryProtection> protection;
  std::string unprotected;
  /// What os::MemoryView::available must not fall under while this fill runs; 0 is no such bound.
  /// The kernel counts mapped page cache as available, for it can be had back, but Andiron means to
  /// keep it: so what this fill has mapped and not locked is taken off `available` here, and what
  /// other holds have mapped must be in this number already (headroom + those bytes). Locked pages
  /// leave `available` by themselves; `cached` ones are anyone's. Looked at every 64 MiB.
  std::uint64_t min_available = 0;
};

struct StageTimes {
  std::chrono::nanoseconds locate{0};  // open, stat, residency walk
  std::chrono::nanoseconds read{0};
  std::chrono::nanoseconds place{0};  // map and lock
  std::chrono::nanoseconds verify{0};
};

/// How a fill ended. Files that were done are in `held` even when a later one failed.
struct FillOutcome {
  std::uint64_t job = 0;
  std::vector<HeldFile> held;
  /// The first: stale, cancelled, timeout, io_error, no_headroom, source_not_found, ... After
  /// cancelled, timeout and no_headroom no further file is tried; after the others they are.
  std::optional<Error> error;
  std::optional<std::string> lock_limit;  // residency was reached, the whole hold was not: why
  std::vector<std::string> notes;         // "xfs-on-fuse: residency unknown", method fallbacks
  StageTimes stages;
  std::uint64_t bytes_read = 0;  // that were missing and are there now
};

/// The task that fills. For each file: open, check identity, find what is missing, map and (for
/// `locked`) mlock2(MLOCK_ONFAULT) first so that nothing filled can go again, bring in what is
/// missing in windows, verify, fill holes (three rounds), check the identity again.
///
/// A file that changed, or that was cut short under way, is `stale`, and nothing of it is held. So
/// is nothing of the file that an error or an order to stop met half way, but with no_headroom:
/// what was in by then is kept, as a HeldFile whose resident_bytes are fewer than its size.
/// With `protected_`, pages that were there before may be charged to other cgroups, where nothing
/// protects them: lock_limit says how many, and to whom.
///
/// Progress: the sizes of all files are added to the control's total here, at once; done counts
/// what was resident when each file was begun and what was brought in since, so a fill that ends
/// well ends with the two equal.
///
/// Every end, also abandonment (`cancelled`), pushes exactly one outcome to `done`.
std::unique_ptr<stream::LaneTask> make_fill_task(FillRequest request,
                                                 std::shared_ptr<stream::TransferControl> control,
                                                 std::shared_ptr<Mailbox<FillOutcome>> done);

/// Gives a file's own clean pages back: posix_fadvise(DONTNEED) over all of it. Pages that somebody
/// maps or locks stay. Blocks. Returns the bytes still resident, where that is known.
/// Errors: stale when another file has the path now, whose pages are not ours to drop; a file that
/// was only written to is still the same one.
Result<std::optional<std::uint64_t>> give_pages_back(const std::string& path,
                                                     const os::FileIdentity& identity);

}  // namespace andiron::tier
