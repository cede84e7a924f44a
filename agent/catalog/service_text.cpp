// SPDX-License-Identifier: MIT
#include "agent/catalog/service_text.hpp"

#include <algorithm>

#include "agent/os/text_file.hpp"

namespace andiron::catalog {

std::vector<ServiceLine> parse_service_text(std::string_view text, bool is_unit) {
  using Kind = ServiceLine::Kind;
  constexpr std::string_view kVariable = "OLLAMA_MODELS=";
  constexpr std::string_view kFile = "EnvironmentFile=";
  std::vector<ServiceLine> found;
  for (std::string_view line : os::split(text, '\n')) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with('#') || line.starts_with(';')) continue;
    if (is_unit && line.starts_with(kFile)) {
      line.remove_prefix(kFile.size());
      if (line.starts_with('-')) line.remove_prefix(1);
      if (line.starts_with('/')) found.push_back({Kind::environment_file, std::string(line)});
      continue;
    }
    const std::size_t at = line.find(kVariable);
    if (at == std::string_view::npos) continue;
    const bool quoted = at > 0 && (line[at - 1] == '"' || line[at - 1] == '\'');
    const char quote = quoted ? line[at - 1] : '\0';
    std::string_view value = line.substr(at + kVariable.size());
    if (!quoted && (value.starts_with('"') || value.starts_with('\''))) {
      const char own = value[0];
      value = value.substr(1, value.find(own, 1) - 1);
    } else {
      value = value.substr(0, quoted ? value.find(quote) : value.find_first_of(" \t"));
    }
    if (value.starts_with('/')) found.push_back({Kind::store, std::string(value)});
  }
  return found;
}

}  // namespace andiron::catalog
