// SPDX-License-Identifier: MIT
// Ollama's manifests, and the small texts beside them: weight indexes and names of models.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/base/check.hpp"
#include "agent/catalog/glob.hpp"
#include "agent/catalog/hf_cache.hpp"
#include "agent/catalog/ollama_store.hpp"
#include "agent/catalog/weight_index.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace andiron::catalog;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto layers = parse_ollama_manifest(text)) {
    for (const OllamaLayer& layer : *layers)
      CHECK(layer.digest.size() == 64 && layer.digest.find('/') == std::string::npos);
  }
  if (const auto files = parse_weight_index(text)) {
    for (const std::string& file : *files)
      CHECK(!file.empty() && file.find('/') == std::string::npos && file != "..");
  }
  if (const auto name = parse_ollama_name(text)) {
    for (const std::string& part : {name->host, name->name_space, name->model, name->tag})
      CHECK(!part.empty() && part[0] != '.' && part.find('/') == std::string::npos);
  }
  if (const auto name = parse_hf_name(text)) CHECK(name->revision.find("..") != 0);
  const std::size_t half = size / 2;
  static_cast<void>(glob_match(text.substr(0, half), text.substr(half)));
  return 0;
}
