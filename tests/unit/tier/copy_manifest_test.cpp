// SPDX-License-Identifier: MIT
#include "agent/tier/copy_manifest.hpp"

#include <gtest/gtest.h>

namespace andiron::tier {
namespace {

CopyManifest sample() {
  CopyManifest manifest;
  manifest.source = "/srv/models/a \"name\"\n.gguf";
  manifest.identity = {2049, 77, 5'000'000'000, 1'700'000'000'123'456'789, -5};
  return manifest;
}

TEST(CopyManifest, ComesBackAsItWas) {
  CopyManifest manifest = sample();
  for (const bool sealed : {false, true}) {
    if (sealed) manifest.checksums = Checksums{{0, 1, ~std::uint64_t{0}}};
    const auto back = parse_manifest(to_text(manifest));
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(manifest.source, back->source);
    EXPECT_EQ(manifest.identity, back->identity);
    EXPECT_EQ(manifest.checksums, back->checksums);
  }
}

TEST(CopyManifest, WhatIsNoManifestIsRefused) {
  std::string text = to_text(sample());
  for (
      const std::string& bad :
      {std::string(), std::string("{}"), std::string("[]"), text.substr(0, text.size() / 2),
       std::string(
           R"({"source":"/a","dev":"x","ino":"1","size":"1","mtime_ns":"1","ctime_ns":"1"})"),
       std::string(
           R"({"source":"/a","dev":"-1","ino":"1","size":"1","mtime_ns":"1","ctime_ns":"1"})"),
       std::string(
           R"({"source":"/a","dev":"99999999999999999999","ino":"1","size":"1","mtime_ns":"1","ctime_ns":"1"})")}) {
    EXPECT_FALSE(parse_manifest(bad)) << bad;
  }
}

TEST(CopyManifest, SumsOfOtherChunksProveNothing) {
  CopyManifest manifest = sample();
  manifest.checksums = Checksums{{7}};
  std::string text = to_text(manifest);
  const std::string chunk = std::to_string(Checksums::kChunk);
  text.replace(text.find(chunk), chunk.size(), "1048576");
  EXPECT_FALSE(parse_manifest(text).value().checksums);
}

TEST(FolderName, IsOnePartAndTellsModelsApart) {
  EXPECT_EQ("llama3.2:3b", folder_name("llama3.2:3b"));
  EXPECT_EQ("%2Fsrv%2Fa.gguf", folder_name("/srv/a.gguf"));
  EXPECT_EQ("%2E.", folder_name(".."));
  EXPECT_EQ("%2Ecopies", folder_name(".copies"));
  EXPECT_EQ("a%25b", folder_name("a%b"));
  EXPECT_EQ("%C3%A9%0A", folder_name("\u00e9\n"));
}

}  // namespace
}  // namespace andiron::tier
