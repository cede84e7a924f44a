// SPDX-License-Identifier: MIT
#include "agent/catalog/file_names.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace andiron::catalog {
namespace {

using Parts = std::vector<std::string>;

Parts split(std::string_view path) {
  Parts parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.emplace_back(part);
    }
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

/// How many leading folders all of them share.
std::size_t shared_folders(const std::vector<const Parts*>& paths) {
  std::size_t shared = paths.empty() || paths[0]->empty() ? 0 : paths[0]->size() - 1;
  for (const Parts* path : paths) {
    const std::size_t most = std::min(shared, path->empty() ? 0 : path->size() - 1);
    const auto end = paths[0]->begin() + static_cast<std::ptrdiff_t>(most);
    shared = static_cast<std::size_t>(std::mismatch(paths[0]->begin(), end, path->begin()).first -
                                      paths[0]->begin());
  }
  return shared;
}

std::string join(const Parts& parts, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < parts.size(); ++i)
    text += (text.empty() ? "" : "/") + parts[i];
  return text;
}

}  // namespace

void name_files(std::vector<ModelFile>& files) {
  std::vector<Parts> parts;
  for (const ModelFile& file : files)
    parts.push_back(split(file.name));
  std::set<std::string> taken;
  for (const bool companions : {false, true}) {
    std::vector<const Parts*> paths;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].companion == companions) paths.push_back(&parts[i]);
    }
    const std::size_t shared = shared_folders(paths);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].companion != companions) continue;
      const std::string plain = (companions ? "also/" : "") + join(parts[i], shared);
      std::string name = plain;
      for (int other = 2; !taken.insert(name).second; ++other)
        name = plain + "." + std::to_string(other);
      files[i].name = std::move(name);
    }
  }
}

}  // namespace andiron::catalog
