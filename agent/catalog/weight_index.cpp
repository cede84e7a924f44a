// SPDX-License-Identifier: MIT
#include "agent/catalog/weight_index.hpp"

#include <set>

#include "agent/base/json_walk.hpp"
#include "agent/catalog/assembly.hpp"

namespace andiron::catalog {
namespace {
// {"metadata": {...}, "weight_map": {"tensor": "file"}}, and some writers nest their metadata.
constexpr std::size_t kDepth = 16;

bool is_plain_name(std::string_view name) noexcept {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}
}  // namespace

bool is_weight_index_name(std::string_view file_name) noexcept {
  return file_name.ends_with(".json") &&
         (file_name.find(".safetensors.index.") != std::string_view::npos ||
          file_name.find(".bin.index.") != std::string_view::npos);
}

Result<std::vector<std::string>> parse_weight_index(std::string_view json) {
  std::set<std::string> files;
  TRY(walk_json(json, kDepth, [&files](const JsonEvent& event) -> Result<void> {
    if (event.path.size() < 2 || event.path[0] != "weight_map") return {};
    if (event.path.size() > 2 || event.kind != JsonEvent::Kind::string)
      return make_error(Errc::bad_format, "weight_map: a file's name is expected");
    if (!is_plain_name(event.text))
      return make_error(Errc::bad_format, "weight_map: a name that is no plain file name");
    if (files.size() == kMaxFiles) return make_error(Errc::too_large, "weight_map");
    files.emplace(event.text);
    return {};
  }));
  if (files.empty()) return make_error(Errc::bad_format, "no weight_map with files in it");
  return std::vector<std::string>(files.begin(), files.end());
}

}  // namespace andiron::catalog
