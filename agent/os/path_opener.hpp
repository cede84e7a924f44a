// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>
#include <utility>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/guest_root.hpp"

namespace andiron::os {

/// Opens files by their resolved paths: those of this machine ("/path"), and those of guests
/// ("guest:NAME:/path"), in which no symlink is followed, since a resolved path has none.
/// It finds each guest once, and holds its root open: one is made for a piece of work, and goes
/// with it. Thread: one. Blocks: as the file systems do.
class PathOpener {
 public:
  explicit PathOpener(GuestPlaces places = {}) : places_(std::move(places)) {}
  PathOpener(const PathOpener&) = delete;
  PathOpener& operator=(const PathOpener&) = delete;

  /// As os::open_regular. Errors: that one's, GuestRoot::open's.
  Result<UniqueFd> open_regular(const std::string& path);
  /// Opens (O_PATH) the folder at `path`, or the nearest above it that is there and no symlink
  /// leads to. Errors: GuestRoot::open's.
  Result<UniqueFd> open_nearest_folder(const std::string& path);

  /// The root of a guest, as it was found first. Errors: GuestRoot::open's.
  Result<const GuestRoot*> guest(std::string_view name);

 private:
  GuestPlaces places_;
  std::map<std::string, Result<GuestRoot>, std::less<>> guests_;
};

}  // namespace andiron::os
