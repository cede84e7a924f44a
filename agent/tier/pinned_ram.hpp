// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/mailbox.hpp"
#include "agent/base/mapped_region.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/os/file.hpp"
#include "agent/stream/engine.hpp"
#include "agent/tier/page_cache.hpp"
#include "agent/tier/pinned_folder.hpp"

namespace andiron::tier {

/// A whole copy that the agent holds: locked in memory while this lives. The copy itself lives in
/// the folder. Ending it walks its pages: not on the control loop.
struct PinnedFile {
  std::string path;           // of the source
  os::FileIdentity identity;  // of the source
  UniqueFd fd;                // of the copy, to read
  MappedRegion mapping;       // of the copy, read-only; never of an empty file
  std::uint64_t locked_bytes = 0;
  std::uint64_t huge_bytes = 0;
  bool adopted = false;  // it was there already
  bool sealed = false;   // its manifest has checksums
};

/// A model's files on one device, to be copied on that device's lane.
struct PinnedRequest {
  std::uint64_t job = 0;
  std::vector<FillFile> files;
  std::shared_ptr<const PinnedFolder> folder;
  Priority priority = Priority::normal;
  /// What os::MemoryView::available must not fall under; 0 is no such bound. A copy's memory leaves
  /// `available` as it is made.
  std::uint64_t min_available = 0;
  /// For measuring: all memory is made ready before the first read.
  bool prefault_first = false;
};

/// How a copying ended. Files that were done are in `held` even when a later one failed.
struct PinnedOutcome {
  std::uint64_t job = 0;
  std::vector<PinnedFile> held;
  std::optional<Error> error;             // as FillOutcome's
  std::optional<std::string> lock_limit;  // copies are whole, and not all of them is locked: why
  std::vector<std::string> notes;
  StageTimes stages;             // place: waiting for memory; verify: checksums of what was adopted
  std::uint64_t bytes_read = 0;  // from the source
};

/// The task that copies. For each file: open, check identity; adopt a whole copy of that identity
/// where the folder has one, its checksums proved; else make a draft, lock it as it comes in
/// (mlock2 ONFAULT), read what the page cache has of the file from there and the rest by O_DIRECT
/// straight into the copy's pages, zero what follows the end, check the identity again, publish.
/// A file that changed under way is `stale`, and nothing of it is kept: a copy never has bytes of
/// two versions. The source stays as cold as it was: what a file system cached all the same is
/// given back. Progress and the end are reported as make_fill_task does.
std::unique_ptr<stream::LaneTask> make_pinned_task(PinnedRequest request,
                                                   std::shared_ptr<stream::TransferControl> control,
                                                   std::shared_ptr<Mailbox<PinnedOutcome>> done);

/// Adds checksums to the manifest of a copy that has none yet. Blocks: 0.1 s a GB.
Result<void> seal(const PinnedFolder& folder, const std::string& source,
                  const os::FileIdentity& identity);

}  // namespace andiron::tier
