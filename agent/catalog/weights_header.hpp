// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/model.hpp"

namespace andiron::catalog {

/// The tensors of one file of weights, by its header: GGUF by its magic, safetensors by its name;
/// of anything else, none. Tensor::file is 0. Blocks: as the file system does. Errors: the
/// header's.
Result<std::vector<Tensor>> read_tensors(int fd, std::uint64_t size, std::string_view name);

}  // namespace andiron::catalog
