// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "agent/base/result.hpp"
#include "agent/catalog/assembly.hpp"

namespace andiron::catalog {

/// Adds what a path means: a file, with its sibling shards; an index and its shards; a folder; a
/// glob. As weights, folders give *.gguf, *.safetensors (those of an index where there is one),
/// *.bin, *.pt and *.pth; as companions every regular file. Blocks.
Result<void> add_path(Assembly& assembly, const std::string& path, Role role);

/// Adds a folder's files, 16 folders deep; the folder is named by `path`, so that links in it keep
/// the names that they have there.
Result<void> add_folder(Assembly& assembly, const std::string& path, Role role);

}  // namespace andiron::catalog
