// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace andiron::cli {

struct WrittenConfig {
  std::string path;    // where it lies now: where `path` was a symlink, what it pointed to
  std::string backup;  // where the file that was there before is kept; empty where there was none
  bool unchanged = false;  // the file held the very text already
};

/// Puts a config in place: whole or not at all, with the folders above it, owner and mode as
/// before (0644 for a new one). A file that is there already is kept as PATH.bak-N, with the first
/// N that is free. Errors: not_regular_file; the system's. Blocks.
Result<WrittenConfig> write_config(const std::string& path, std::string_view text);

}  // namespace andiron::cli
