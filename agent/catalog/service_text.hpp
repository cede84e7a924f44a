// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace andiron::catalog {

/// What a unit of an Ollama service, or a file of its environment, says of where its store is.
struct ServiceLine {
  enum class Kind {
    store,             // OLLAMA_MODELS: the folder
    environment_file,  // EnvironmentFile=, which only units have: may say so in turn
  };
  Kind kind = Kind::store;
  std::string path;  // absolute
};

/// Environment="OLLAMA_MODELS=/x" in any of its spellings, and the same line in an EnvironmentFile.
/// In the order of the text. Pure.
std::vector<ServiceLine> parse_service_text(std::string_view text, bool is_unit);

/// Folders in which a unit is looked for: the admin's first.
inline constexpr const char* kUnitFolders[] = {"/etc/systemd/system", "/run/systemd/system",
                                               "/usr/lib/systemd/system", "/lib/systemd/system"};
/// Where installers and packages put Ollama's store.
inline constexpr const char* kOllamaFolders[] = {
    "/usr/share/ollama/.ollama/models", "/var/lib/ollama/.ollama/models",
    "/var/lib/ollama/models",           "/var/lib/ollama",
    "/var/lib/private/ollama/models",   "/var/snap/ollama/common/models"};

}  // namespace andiron::catalog
