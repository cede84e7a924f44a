// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::os {

/// Where a tmpfs shows its two faces. Both folders must be there, and root's alone to change.
struct PinnedPlaces {
  std::string writable;  // below a folder that only root may enter: nobody else is to write there
  std::string readable;  // a read-only bind of it, for everybody, containers included
};

/// A tmpfs that is there twice. Through the read-only face nobody can write, truncate or chmod what
/// lies there, its owner included. It outlives the process; so does what is in it.
struct PinnedMount {
  UniqueFd root;      // O_PATH, of the writable face
  bool made = false;  // else it was there already
  bool huge = false;  // asks for huge pages (huge=within_size, or stronger), and may have them
  bool noswap = false;
  std::vector<std::string> notes;  // why it is not huge, or not noswap
};

/// Makes what of the two is missing, which wants CAP_SYS_ADMIN, and opens it. What is there is
/// adopted, whatever its options are. `size` bytes bound a new one, and an adopted one where that
/// may be changed. Mounts belong to the namespace of whoever makes them: under a unit that has one
/// of its own, make_pinned_mount runs outside of it first.
/// Errors: permission_denied when something is to be mounted and may not be; unavailable when
/// something else is mounted there. Blocks for microseconds: it is memory.
Result<PinnedMount> open_pinned_mount(const PinnedPlaces& places, std::uint64_t size);

/// Whether a tmpfs is mounted just there.
bool is_mounted(const std::string& path);

/// Takes both faces away, and with them what nobody has open. Not there is no error.
Result<void> remove_pinned_mount(const PinnedPlaces& places);

}  // namespace andiron::os
