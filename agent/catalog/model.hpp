// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/os/file.hpp"

namespace andiron::catalog {

/// A tensor as its file's header describes it.
struct Tensor {
  std::string name;
  std::string dtype;                 // "Q4_K", "F16", "BF16", ...: the format's own names
  std::vector<std::uint64_t> shape;  // as in the header: GGUF's innermost dimension first
  std::uint32_t file = 0;            // index into Resolved::files
  std::uint64_t offset = 0;          // from the start of the file, in bytes
  std::uint64_t bytes = 0;
};

struct ModelFile {
  std::string path;  // absolute, symlinks resolved; as os::PathOpener takes it
  os::FileIdentity identity;
  bool companion = false;  // named by `also`: kept warm with the model, no weights of it
  /// What it is called within the model: its path below the folder that all weights share, as the
  /// source names them ("model-00001-of-00002.safetensors", whatever blob that leads to); of
  /// companions, below "also/". Relative, without "." or "..", unique in the model.
  std::string name = {};
};

/// What a GGUF header says about the model's shape; 0 and "" where it does not.
struct ModelMetadata {
  std::string architecture;  // "llama", "gemma3"
  std::uint64_t context_length = 0;
  std::uint64_t block_count = 0;
  std::uint64_t embedding_length = 0;
  std::uint64_t head_count = 0;     // of a model whose layers differ, the most of one layer
  std::uint64_t head_count_kv = 0;  // the same
};

/// A source, resolved: which bytes on this machine it means now.
struct Resolved {
  std::string source;
  std::vector<ModelFile> files;           // each inode once; weights in load order, then companions
  std::vector<Tensor> tensors;            // empty unless asked for
  std::optional<ModelMetadata> metadata;  // of the first GGUF file
  std::uint64_t bytes = 0;                // of all files
  std::vector<std::string> watch;  // paths whose change may change this answer: folders, manifests,
                                   // refs, symlinks; files themselves are not repeated here
  std::vector<std::string> notes;  // for people: duplicates pointed out, files skipped, and why
};

}  // namespace andiron::catalog
