// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/catalog/resolver.hpp"
#include "agent/cli/setup_processes.hpp"
#include "agent/cli/setup_tree.hpp"

namespace andiron::cli {

enum class StoreKind { ollama, hugging_face, folder };

/// A place that holds models.
struct FoundStore {
  StoreKind kind = StoreKind::folder;
  std::string path;
  std::string origin;  // in words: "Ollama's service user", "Docker volume ollama", ...
  std::size_t models = 0;
};

struct FoundFile {
  std::string path;
  std::uint64_t dev = 0;
  std::uint64_t ino = 0;
  std::uint64_t bytes = 0;
  std::int64_t used = 0;  // seconds since 1970: the later of atime and mtime
  std::string digest;     // "sha256:HEX" where the store names it, else empty
};

/// A model in a store, by the names it goes by.
struct FoundModel {
  StoreKind kind = StoreKind::folder;
  std::string store;        // the store's path
  std::string label;        // what its owner calls it: "llama3.2:3b", "org/name", a file's stem
  std::string source;       // "ollama:..." or "hf:..."; empty where only a path names it
  std::string path_source;  // a file or folder
  std::vector<std::string> also;               // goes with path_source: projector and adapters
  std::vector<FoundFile> files;                // weights; the first names the model
  std::uint64_t bytes = 0;                     // of all files, each inode once
  std::int64_t used = 0;                       // of the files, and of the store's own record of it
  std::vector<std::string> in_use_by;          // runtimes that have it open or were started with it
  std::vector<std::string> in_use_containers;  // names of the containers that those run in
};

struct StoreFindings {
  std::vector<FoundStore> stores;
  std::vector<FoundModel> models;
  std::vector<std::string> notes;  // what was found and is no model: incomplete pulls, and so on
};

/// Looks in the usual places, in `places` (what the resolver knows of), and where the runtimes say
/// that they keep models. `environment` is the caller's own.
StoreFindings scan_stores(TreeReader& tree, const std::vector<Runtime>& runtimes,
                          const catalog::Places& places,
                          const std::map<std::string, std::string>& environment);

/// True when two models are the same bytes: the same inode or digest, or the same size and the
/// same bytes at the start, the middle and the end (64 KiB each; weights that agree there and are
/// equally long are copies). Blocks.
bool same_weights(const FoundModel& a, const FoundModel& b);

}  // namespace andiron::cli
