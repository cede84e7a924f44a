// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace andiron::catalog {

/// Does text hold a *, ? or [ that glob_match() would take as more than itself?
bool has_glob_characters(std::string_view text) noexcept;

/// Matches one component of a path against *, ?, [abc], [a-z], [!a-z]; a backslash takes the next
/// character as itself. A leading dot is matched only by a dot. Time is pattern times name, where
/// fnmatch(3) can take exponential time on a pattern of a stranger's.
bool glob_match(std::string_view pattern, std::string_view name) noexcept;

}  // namespace andiron::catalog
