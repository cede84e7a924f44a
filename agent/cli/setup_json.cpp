// SPDX-License-Identifier: MIT
#include "agent/cli/setup_json.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "agent/base/clock.hpp"
#include "agent/cli/setup_proposal.hpp"
#include "agent/cli/setup_render.hpp"

namespace andiron::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLayers = 4096;

std::string text_of(const json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

bool is_digest(std::string_view text) {
  constexpr std::string_view kStart = "sha256:";
  return text.size() == kStart.size() + 64 && text.substr(0, kStart.size()) == kStart &&
         text.find_first_not_of("0123456789abcdef", kStart.size()) == std::string_view::npos;
}

json time_or_null(std::int64_t seconds) {
  if (seconds <= 0) return nullptr;
  return format_time(WallTime(std::chrono::seconds(seconds)));
}

json memory_json(const Proposal& proposal) {
  if (!proposal.machine.memory) return nullptr;
  const os::MemoryView& memory = *proposal.machine.memory;
  return {{"limit", memory.limit},           {"available", memory.available},
          {"limited_by", memory.limited_by}, {"swap_total", memory.swap_total},
          {"swap_free", memory.swap_free},   {"unified", proposal.machine.unified.unified},
          {"budget", proposal.budget},       {"headroom", proposal.headroom},
          {"capacity", proposal.capacity},   {"chosen_bytes", proposal.chosen_bytes}};
}

json machine_json(const Machine& machine) {
  json body{{"gpus", json::array()},
            {"runtimes", json::array()},
            {"containers", json::array()},
            {"tenants", json::array()},
            {"stores", json::array()}};
  for (const FoundGpu& gpu : machine.gpus) {
    body["gpus"].push_back({{"vendor", gpu.vendor},
                            {"name", gpu.name},
                            {"uuid", gpu.uuid},
                            {"pci", gpu.pci},
                            {"vram_bytes", gpu.vram ? json(*gpu.vram) : json(nullptr)}});
  }
  for (const Runtime& runtime : machine.runtimes) {
    const ProcessView& process = runtime.process;
    body["runtimes"].push_back({{"kind", runtime.kind},
                                {"pid", process.pid},
                                {"exe", process.exe},
                                {"container", process.container.name},
                                {"models", runtime.model_files}});
  }
  for (const Container& container : machine.containers) {
    body["containers"].push_back({{"id", container.id}, {"name", container.name}});
  }
  for (const FoundTenant& tenant : machine.tenants) {
    body["tenants"].push_back(
        {{"name", tenant.name},
         {"why", tenant.why},
         {"match", {{"exe", tenant.match_exe}, {"cgroup", tenant.match_cgroup}}}});
  }
  constexpr std::array<const char*, 3> kKinds{"ollama", "hugging-face", "folder"};
  for (const FoundStore& store : machine.stores) {
    body["stores"].push_back({{"kind", kKinds.at(static_cast<std::size_t>(store.kind))},
                              {"path", store.path},
                              {"origin", store.origin},
                              {"models", store.models}});
  }
  return body;
}

json model_json(const Candidate& candidate) {
  return {{"name", candidate.name},
          {"label", candidate.model.label},
          {"source", candidate.source},
          {"also", candidate.also},
          {"path", candidate.model.path_source},
          {"store", candidate.model.store},
          {"bytes", candidate.bytes},
          {"last_used", time_or_null(candidate.model.used)},
          {"in_use_by", candidate.model.in_use_by},
          {"duplicate_of", candidate.duplicate_of},
          {"chosen", candidate.chosen},
          {"would_hold", candidate.would_hold},
          {"why", candidate.why},
          {"cautions", candidate.cautions}};
}

}  // namespace

std::vector<OllamaLayer> ollama_weight_layers(std::string_view manifest) {
  std::vector<OllamaLayer> layers;
  const json body = json::parse(manifest, nullptr, false);
  if (!body.is_object() || !body.contains("layers") || !body["layers"].is_array()) return layers;
  constexpr std::string_view kStart = "application/vnd.ollama.image.";
  constexpr std::array<std::string_view, 5> kWeights{"model", "projector", "adapter", "draft",
                                                     "tensor"};
  for (const json& layer : body["layers"]) {
    OllamaLayer found{text_of(layer, "mediaType"), text_of(layer, "digest")};
    if (found.media_type.compare(0, kStart.size(), kStart) != 0 || !is_digest(found.digest))
      continue;
    const std::string_view kind = std::string_view(found.media_type).substr(kStart.size());
    if (std::find(kWeights.begin(), kWeights.end(), kind) == kWeights.end()) continue;
    if (layers.size() < kMostLayers) layers.push_back(std::move(found));
  }
  return layers;
}

std::string docker_name(std::string_view config) {
  const json body = json::parse(config, nullptr, false);
  std::string name = text_of(body, "Name");
  if (!name.empty() && name.front() == '/') name.erase(0, 1);
  return name;
}

std::map<std::string, std::string> podman_names(std::string_view list) {
  std::map<std::string, std::string> names;
  const json body = json::parse(list, nullptr, false);
  if (!body.is_array()) return names;
  for (const json& container : body) {
    const std::string id = text_of(container, "id");
    if (id.empty() || !container.contains("names")) continue;
    const json& all = container["names"];
    if (all.is_array() && !all.empty() && all.front().is_string()) {
      names.emplace(id, all.front().get<std::string>());
    }
  }
  return names;
}

std::string proposal_json(const Proposal& proposal, const std::string& written) {
  json body = machine_json(proposal.machine);
  body["memory"] = memory_json(proposal);
  body["models"] = json::array();
  for (const Candidate& candidate : proposal.candidates) {
    body["models"].push_back(model_json(candidate));
  }
  body["allow_roots"] = json::array();
  for (const FoundStore& store : allow_roots_of(proposal.machine)) {
    body["allow_roots"].push_back(store.path);
  }
  body["warnings"] = proposal.warnings;
  body["notes"] = proposal.machine.notes;
  body["unreadable"] = proposal.machine.unreadable;
  body["config"] = proposal.config;
  body["written"] = written.empty() ? json(nullptr) : json(written);
  // File names need not be UTF-8: their other bytes become U+FFFD.
  return body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace andiron::cli
