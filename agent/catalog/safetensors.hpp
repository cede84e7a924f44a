// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/header_reader.hpp"
#include "agent/catalog/model.hpp"

namespace andiron::catalog {

struct SafetensorsHeader {
  std::uint64_t data_offset = 0;  // from the start of the file
  std::uint64_t tensor_count = 0;
  std::vector<Tensor> tensors;  // in the file's order, offsets from its start; empty unless kept
};

/// Reads and checks a safetensors header by the format's own rules: each tensor's bytes are what
/// its shape and type need, and the tensors fill the rest of the file without gap or overlap.
/// Errors: bad_format, truncated, too_large, or the reader's.
Result<SafetensorsHeader> parse_safetensors(HeaderReader& reader, bool keep_tensors);

}  // namespace andiron::catalog
