// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/header_reader.hpp"
#include "agent/catalog/model.hpp"

namespace andiron::catalog {

/// More tensors than any model has: mixtures of experts with each expert apart have some 100,000.
inline constexpr std::uint64_t kMaxTensors = std::uint64_t{1} << 20;

/// A GGUF header of version 2 or 3, little-endian. Source of the format: the GGUF specification of
/// the ggml project, and its type table as of version 0.16.
struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::uint64_t data_offset = 0;  // from the start of the file, where tensors' offsets count from
  std::uint64_t tensor_count = 0;
  std::optional<std::uint64_t> split_no;     // from 0
  std::optional<std::uint64_t> split_count;  // absent and 1 mean: not split
  ModelMetadata metadata;
  std::vector<Tensor> tensors;  // offsets from the start of the file; empty unless kept
};

/// True for the four bytes that a GGUF file starts with.
bool has_gguf_magic(std::string_view first_bytes) noexcept;

/// Reads and checks a header: counts and lengths against what is left of the file before anything
/// is allocated, sizes for overflow, tensors for lying inside the file and beside each other.
/// Tensors are not kept unless asked for. Errors: bad_format, truncated, too_large, or the
/// reader's.
Result<GgufHeader> parse_gguf(HeaderReader& reader, bool keep_tensors);

}  // namespace andiron::catalog
