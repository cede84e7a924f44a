// SPDX-License-Identifier: MIT
#include "agent/catalog/ollama_store.hpp"

#include <strings.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "agent/base/json_walk.hpp"
#include "agent/base/units.hpp"

namespace andiron::catalog {
namespace {

// A model of one layer a tensor has some thousand layers of 300 bytes.
constexpr std::size_t kMaxManifestBytes = 4 * kMiB;
constexpr std::size_t kManifestDepth = 16;
constexpr std::size_t kMaxPartBytes = 128;
constexpr std::string_view kMediaPrefix = "application/vnd.ollama.image.";

bool is_missing(const Error& error) { return error.errc() == Errc::source_not_found; }

bool is_name_part(std::string_view part, bool host) {
  if (part.empty() || part.size() > kMaxPartBytes || part.starts_with('.')) return false;
  return std::all_of(part.begin(), part.end(), [host](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || (host && c == ':');
  });
}

bool is_weights_type(std::string_view media_type) {
  if (!media_type.starts_with(kMediaPrefix)) return false;
  media_type.remove_prefix(kMediaPrefix.size());
  constexpr std::array<std::string_view, 5> kKinds = {"model", "projector", "adapter", "draft",
                                                      "tensor"};
  return std::find(kKinds.begin(), kKinds.end(), media_type) != kKinds.end();
}

/// "sha256:HEX" or "sha256-HEX" to HEX.
std::optional<std::string> parse_digest(std::string_view text) {
  constexpr std::size_t kHexDigits = 64;
  if (!text.starts_with("sha256:") && !text.starts_with("sha256-")) return std::nullopt;
  text.remove_prefix(7);
  if (text.size() != kHexDigits) return std::nullopt;
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  return std::string(text);
}

/// What of a layer has been seen while the walk is in it.
struct LayerFields {
  std::optional<std::string> media_type;
  std::optional<std::string> digest;
  std::optional<std::uint64_t> size;
};

class ManifestParser {
 public:
  Result<void> visit(const JsonEvent& event);
  Result<std::vector<OllamaLayer>> finish();

 private:
  Result<void> close_layer();

  bool version_is_2_ = false;
  std::size_t count_ = 0;
  LayerFields fields_;
  std::vector<OllamaLayer> layers_;
};

Result<void> ManifestParser::visit(const JsonEvent& event) {
  using Kind = JsonEvent::Kind;
  const auto& path = event.path;
  if (path.size() == 1 && path[0] == "schemaVersion")
    version_is_2_ = event.kind == Kind::natural && event.number == 2;
  if (path.size() < 2 || path[0] != "layers" || !path[1].empty()) return {};
  if (path.size() == 2) {
    if (event.kind == Kind::begin_object) fields_ = {};
    if (event.kind == Kind::end_object) return close_layer();
    return {};
  }
  if (path.size() != 3) return {};
  if (path[2] == "mediaType" && event.kind == Kind::string) {
    const std::string_view type = event.text.substr(0, event.text.find(';'));
    fields_.media_type = std::string(type.substr(0, type.find_last_not_of(' ') + 1));
  } else if (path[2] == "digest" && event.kind == Kind::string) {
    fields_.digest = parse_digest(event.text);
    if (!fields_.digest) return make_error(Errc::bad_format, "a layer's digest is no SHA-256");
  } else if (path[2] == "size" && event.kind == Kind::natural) {
    fields_.size = event.number;
  }
  return {};
}

Result<void> ManifestParser::close_layer() {
  if (!fields_.media_type || !fields_.digest || !fields_.size)
    return make_error(Errc::bad_format, "a layer without mediaType, digest or size");
  if (++count_ > kMaxFiles) return make_error(Errc::too_large, "more than 4096 layers");
  if (is_weights_type(*fields_.media_type)) {
    layers_.push_back({std::move(*fields_.media_type), std::move(*fields_.digest), *fields_.size});
  }
  return {};
}

Result<std::vector<OllamaLayer>> ManifestParser::finish() {
  if (!version_is_2_) return make_error(Errc::bad_format, "no manifest of schemaVersion 2");
  return std::move(layers_);
}

/// A name in a folder; Ollama does not tell upper from lower case, so neither is told here where
/// the exact name is not there.
Result<std::string> find_entry(Assembly& assembly, const std::string& folder,
                               const std::string& name) {
  const Result<Located> exact = assembly.locate(join_path(folder, name));
  if (exact) return name;
  if (!is_missing(exact.error())) return exact.error();
  const Located parent = TRY(assembly.locate(folder));
  for (std::string& entry : TRY(assembly.list(parent))) {
    if (::strcasecmp(entry.c_str(), name.c_str()) == 0) return std::move(entry);
  }
  return make_error(Errc::source_not_found, join_path(folder, name));
}

Result<std::string> find_manifest(Assembly& assembly, const std::string& store,
                                  const OllamaName& name) {
  std::string path = join_path(store, "manifests");
  for (const std::string& part : {name.host, name.name_space, name.model, name.tag})
    path = join_path(path, TRY(find_entry(assembly, path, part)));
  return path;
}

Result<void> add_from_store(Assembly& assembly, const std::string& store,
                            const std::string& manifest, Role role) {
  const Located file = TRY(assembly.locate(manifest));
  assembly.watch(file.path);
  assembly.watch(parent_path(file.path));
  const std::string json = TRY(read_located(file, kMaxManifestBytes));
  const std::vector<OllamaLayer> layers = TRY(parse_ollama_manifest(json).wrap(manifest));
  if (layers.empty()) {
    return make_error(Errc::source_not_found,
                      manifest + " names no weights: a model that runs elsewhere has none here");
  }
  const std::string blobs = join_path(store, "blobs");
  std::string missing;
  for (const OllamaLayer& layer : layers) {
    const std::string name = "sha256-" + layer.digest;
    const Result<Located> blob = assembly.locate(join_path(blobs, name));
    if (blob) {
      assembly.know_digest(layer.digest, *blob);
    } else if (is_missing(blob.error())) {
      missing += (missing.empty() ? "" : ", ") + name;
    } else {
      return blob.error();
    }
  }
  if (!missing.empty()) {
    constexpr std::size_t kShown = 400;
    if (missing.size() > kShown) missing = missing.substr(0, kShown) + "...";
    return make_error(Errc::incomplete_shards, "blobs are missing in " + blobs + ": " + missing);
  }
  for (const OllamaLayer& layer : layers)
    TRY(assembly.add_file(join_path(blobs, "sha256-" + layer.digest), role, layer.size));
  return {};
}

}  // namespace

Result<OllamaName> parse_ollama_name(std::string_view text) {
  const auto bad = [&] {
    return make_error(Errc::source_not_found,
                      "'" + std::string(text.substr(0, 200)) + "' is no name of an Ollama model");
  };
  OllamaName name;
  std::string_view rest = text;
  const std::size_t last_slash = rest.rfind('/');
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos &&
      (last_slash == std::string_view::npos || colon > last_slash)) {
    name.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t slash = rest.find('/');
    parts.push_back(rest.substr(0, slash));
    if (slash == std::string_view::npos || parts.size() > 3) break;
    rest.remove_prefix(slash + 1);
  }
  if (parts.size() > 3) return bad();
  name.model = parts.back();
  if (parts.size() > 1) name.name_space = parts[parts.size() - 2];
  if (parts.size() > 2) name.host = parts[0];
  if (!is_name_part(name.host, true) || !is_name_part(name.name_space, false) ||
      !is_name_part(name.model, false) || !is_name_part(name.tag, false)) {
    return bad();
  }
  return name;
}

Result<std::vector<OllamaLayer>> parse_ollama_manifest(std::string_view json) {
  ManifestParser parser;
  TRY(walk_json(json, kManifestDepth,
                [&parser](const JsonEvent& event) { return parser.visit(event); }));
  return parser.finish();
}

Result<void> add_ollama(Assembly& assembly, std::string_view name,
                        const std::vector<std::string>& stores, Role role) {
  const OllamaName parsed = TRY(parse_ollama_name(name));
  std::optional<Error> reason;  // the first that says more than "not here"
  std::string used;
  for (const std::string& store : stores) {
    Result<std::string> manifest = find_manifest(assembly, store, parsed);
    if (!manifest) {
      if (!is_missing(manifest.error()) && !reason) reason = std::move(manifest).error();
      continue;
    }
    if (used.empty()) {
      TRY(add_from_store(assembly, store, *manifest, role));
      used = store;
    } else {
      assembly.note(std::string(name) + " is also in the store " + store + "; taken from " + used);
    }
  }
  if (!used.empty()) return {};
  if (reason) return std::move(*reason);
  return make_error(Errc::source_not_found, "no Ollama store has '" + std::string(name) +
                                                "' (looked in " + std::to_string(stores.size()) +
                                                ")");
}

}  // namespace andiron::catalog
