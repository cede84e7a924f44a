// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/cli/setup_stores.hpp"

namespace andiron::cli {

/// A regular file's facts, symlinks followed; nullopt for anything else.
std::optional<FoundFile> found_file(const std::string& path);

/// Sets a model's bytes and time of use from its files.
void sum_up(FoundModel& model);

struct FolderModels {
  std::vector<FoundModel> models;
  bool whole = false;  // the folder is one model, with what is below it
};
/// The models that lie in one folder: each GGUF file (its shards together, a projector with them),
/// a folder of safetensors with its config, or single weight files.
FolderModels models_in_folder(TreeReader& tree, const std::string& folder,
                              const std::vector<TreeReader::Entry>& entries);

/// The models in a Hugging Face cache's folder "models--ORG--NAME", at the revision that `main`
/// points to, else the newest one.
std::vector<FoundModel> models_in_repository(TreeReader& tree, const std::string& cache,
                                             const std::string& name);

}  // namespace andiron::cli
