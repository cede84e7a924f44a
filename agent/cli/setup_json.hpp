// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace andiron::cli {

struct Proposal;

/// `setup`'s JSON: the one place that includes the library. All readers take hostile text and give
/// nothing for what they cannot read.

struct OllamaLayer {
  std::string media_type;
  std::string digest;  // "sha256:" and 64 hex digits: checked, since a path is made of it
};
/// The layers of a manifest that hold weights (model, projector, adapter, draft, tensor), at most
/// 4,096.
std::vector<OllamaLayer> ollama_weight_layers(std::string_view manifest);

/// A container's name out of Docker's config.v2.json, without its slash.
std::string docker_name(std::string_view config);
/// Names by id out of Podman's containers.json.
std::map<std::string, std::string> podman_names(std::string_view list);

/// What `andironctl setup --json` prints. `written` is the path written to, or empty.
std::string proposal_json(const Proposal& proposal, const std::string& written);

}  // namespace andiron::cli
