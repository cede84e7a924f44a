// SPDX-License-Identifier: MIT
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/catalog/resolver.hpp"
#include "tests/support/model_bytes.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::catalog {

/// A folder with models in it, and short words for what tests ask.
class CatalogTest : public ::testing::Test {
 protected:
  std::string path(std::string_view name) const { return (dir_ / name).string(); }
  std::string write(std::string_view name, std::string_view content = "opaque") const {
    return dir_.write(name, content).string();
  }
  std::string write_gguf(std::string_view name, char fill = '\1') const {
    return write(name, testing::GgufBytes().tensor("t", 8, fill).bytes());
  }
  std::string write_safetensors(std::string_view name, char fill = '\1') const {
    return write(name, testing::safetensors_vector("t", 8, fill));
  }
  void link(std::string_view name, const std::string& target) const {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::filesystem::create_symlink(target, dir_ / name);
  }
  Result<Resolved> find(const std::string& source,
                        const std::vector<std::string>& also = {}) const {
    return resolve(source, also, options_);
  }
  std::string error_of(const std::string& source, const std::vector<std::string>& also = {}) const {
    const auto resolved = find(source, also);
    return resolved ? "none" : std::string(error_name(resolved.error().errc()));
  }
  std::string message_of(const std::string& source) const {
    const auto resolved = find(source);
    return resolved ? "" : resolved.error().message();
  }
  /// Names of the files below the test's folder, in order.
  std::vector<std::string> names(const Result<Resolved>& resolved) const {
    if (!resolved) return {"error: " + resolved.error().message()};
    std::vector<std::string> found;
    for (const ModelFile& file : resolved->files)
      found.push_back(std::filesystem::path(file.path).lexically_relative(dir_.path()).string());
    return found;
  }
  static bool any_note(const Result<Resolved>& resolved, std::string_view words) {
    return resolved && std::any_of(resolved->notes.begin(), resolved->notes.end(),
                                   [&](const std::string& note) {
                                     return note.find(words) != std::string::npos;
                                   });
  }

  testing::TempDir dir_;
  ResolveOptions options_;
};

}  // namespace andiron::catalog
