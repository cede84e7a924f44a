// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/assembly.hpp"

namespace andiron::catalog {

/// A model's name as Ollama reads it: [HOST/][NAMESPACE/]MODEL[:TAG].
struct OllamaName {
  std::string host = "registry.ollama.ai";
  std::string name_space = "library";
  std::string model;
  std::string tag = "latest";
};
/// Errors: source_not_found for what can be no name, "." and ".." among it.
Result<OllamaName> parse_ollama_name(std::string_view text);

/// A layer of a manifest that holds weights.
struct OllamaLayer {
  std::string media_type;  // without parameters
  std::string digest;      // 64 lower-case hexadecimal digits of a SHA-256
  std::uint64_t size = 0;
};
/// The layers of weights in a manifest: model, projector, adapter, draft, tensor, in its order.
/// Errors: bad_format, also for any digest that is not one; too_large past 4,096 layers.
Result<std::vector<OllamaLayer>> parse_ollama_manifest(std::string_view json);

/// Adds the weights of "llama3.2:3b" from the first store that has it. Blocks.
/// Errors: source_not_found; incomplete_shards with the blobs that are missing; truncated.
Result<void> add_ollama(Assembly& assembly, std::string_view name,
                        const std::vector<std::string>& stores, Role role);

}  // namespace andiron::catalog
