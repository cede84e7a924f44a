// SPDX-License-Identifier: MIT
#include "agent/catalog/file_names.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace andiron::catalog {
namespace {

std::vector<std::string> named(const std::vector<std::pair<std::string, bool>>& given) {
  std::vector<ModelFile> files;
  for (const auto& [path, companion] : given) {
    ModelFile file;
    file.name = path;
    file.companion = companion;
    files.push_back(file);
  }
  name_files(files);
  std::vector<std::string> names;
  for (const ModelFile& file : files)
    names.push_back(file.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(FileNames, AreRelativeToWhatAllShare) {
  EXPECT_EQ((Names{"model.gguf"}), named({{"/srv/models/model.gguf", false}}));
  EXPECT_EQ((Names{"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}),
            named({{"/m/a-00001-of-00002.gguf", false}, {"/m/a-00002-of-00002.gguf", false}}));
  EXPECT_EQ((Names{"x/model.safetensors", "y/z/model.safetensors"}),
            named({{"/m/x/model.safetensors", false}, {"/m/y/z/model.safetensors", false}}));
  EXPECT_EQ((Names{"ab", "abc"}), named({{"/m/ab", false}, {"/m/abc", false}}));
  EXPECT_EQ((Names{"a", "a.2"}), named({{"/m/a", false}, {"/m//a", false}}));
}

TEST(FileNames, OfCompanionsAreBelowAlso) {
  EXPECT_EQ(
      (Names{"w.gguf", "also/tokenizer.json", "also/lora.gguf"}),
      named({{"/m/w.gguf", false}, {"/etc/t/tokenizer.json", true}, {"/etc/t/lora.gguf", true}}));
}

TEST(FileNames, HaveNoStepsUp) {
  EXPECT_EQ((Names{"b"}), named({{"/m/a/../b", false}}));
  EXPECT_EQ((Names{"etc"}), named({{"/../../etc", false}}));
  EXPECT_EQ((Names{"m/b", "c"}), named({{"/m/./b", false}, {"/x/../c", false}}));
}

}  // namespace
}  // namespace andiron::catalog
