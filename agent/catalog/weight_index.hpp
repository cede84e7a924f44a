// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace andiron::catalog {

/// The files that a model.safetensors.index.json (or pytorch_model.bin.index.json) names, sorted,
/// each once. Errors: bad_format, also for a name with a slash or of "..": it could point anywhere;
/// too_large past 4,096 files.
Result<std::vector<std::string>> parse_weight_index(std::string_view json);

/// "model.safetensors.index.json", "model.safetensors.index.fp16.json",
/// "pytorch_model.bin.index.json"
bool is_weight_index_name(std::string_view file_name) noexcept;

}  // namespace andiron::catalog
