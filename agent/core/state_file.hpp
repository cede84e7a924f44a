// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/vocabulary.hpp"

namespace andiron::core {

/// What a killed agent has to hold again: its wanted models.
struct WantedModel {
  std::string name;
  std::string source;
  std::vector<std::string> also;
  bool configured = false;
  std::optional<Hold> hold;       // as it was asked for, where it was
  std::optional<Tier> tier = {};  // the same
};

/// STATE_DIR/wanted.json. Blocks. A file that cannot be read or understood is an error, and the
/// agent goes on without it; one that is not there is an empty list.
Result<std::vector<WantedModel>> load_wanted(const std::string& state_dir);
/// Written beside, synced and renamed over, so that a crash leaves the old or the new one whole.
Result<void> save_wanted(const std::string& state_dir, const std::vector<WantedModel>& models);

/// A model that nobody asked for and of which much was resident all the same.
struct ResidentModel {
  std::string name;
  std::uint64_t files = 0;     // fingerprint_of() them
  std::uint64_t bytes = 0;     // of its files
  std::uint64_t resident = 0;  // of those
  friend bool operator==(const ResidentModel&, const ResidentModel&) = default;
};
struct ResidentModels {
  std::string boot_id;  // of the boot in which that was so
  std::vector<ResidentModel> models;
};

/// STATE_DIR/resident.json, in the same way.
Result<ResidentModels> load_resident(const std::string& state_dir);
Result<void> save_resident(const std::string& state_dir, const ResidentModels& resident);

}  // namespace andiron::core
