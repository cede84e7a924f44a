// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/assembly.hpp"

namespace andiron::catalog {

/// Folders of Ollama stores in a guest, as paths that name it: where OLLAMA_MODELS of its service
/// says, where installers put it, and in homes. What is not there is left out, also what cannot be
/// read. Blocks. Errors: Assembly::check_guest's.
Result<std::vector<std::string>> guest_ollama_stores(Assembly& assembly, std::string_view guest);

/// The same for Hugging Face caches, in homes.
Result<std::vector<std::string>> guest_hf_caches(Assembly& assembly, std::string_view guest);

}  // namespace andiron::catalog
