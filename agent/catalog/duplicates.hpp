// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "agent/catalog/model.hpp"

namespace andiron::catalog {

/// Sentences for people on weights that these models have twice.
/// Files that are one inode (hard links, symlinks, layers that tags share) have their pages in the
/// cache once, and are one cost. Copies have them once each, and so do reflinked copies: they share
/// blocks on the disk, never pages in memory. Two files count as copies when size, first and last
/// 64 KiB are equal; only files of 1 MiB and more are compared, and 256 of them at most.
/// Blocks: reads 128 KiB of each file that has another's size. Files that changed are left out.
std::vector<std::string> find_duplicates(const std::vector<const Resolved*>& models);

}  // namespace andiron::catalog
