// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/assembly.hpp"

namespace andiron::catalog {

/// ORG/NAME[@REVISION] of the Hugging Face hub; some old ones are NAME alone.
struct HfName {
  std::string repository;  // "org/name"
  std::string revision = "main";
};
/// Errors: source_not_found for what can be no name.
Result<HfName> parse_hf_name(std::string_view text);

/// Adds the weights of a snapshot from the first cache that has it. Blocks.
/// Errors: source_not_found; incomplete_shards where a link in it leads to nothing; add_folder()'s.
Result<void> add_hf(Assembly& assembly, std::string_view name,
                    const std::vector<std::string>& caches, Role role);

}  // namespace andiron::catalog
