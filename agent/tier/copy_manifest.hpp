// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "agent/base/result.hpp"
#include "agent/tier/pinned_folder.hpp"

namespace andiron::tier {

/// The manifest as it lies beside its copy: JSON, a line.
std::string to_text(const CopyManifest& manifest);
/// Errors: bad_format; too_large past 1 MiB, which sums of 3.5 TiB take.
Result<CopyManifest> parse_manifest(const std::string& text);
Result<CopyManifest> read_manifest(int fd);

}  // namespace andiron::tier
