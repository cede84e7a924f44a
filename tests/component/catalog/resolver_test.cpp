// SPDX-License-Identifier: MIT
#include "agent/catalog/resolver.hpp"

#include "tests/component/catalog/catalog_fixture.hpp"

namespace andiron::catalog {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

using ResolverTest = CatalogTest;

std::string index_of(const std::vector<std::string>& files) {
  std::string map;
  for (const std::string& file : files)
    map += (map.empty() ? "" : ",") + ("\"t" + std::to_string(map.size())) + "\":\"" + file + "\"";
  return R"({"metadata":{},"weight_map":{)" + map + "}}";
}

TEST_F(ResolverTest, OneFile) {
  const std::string file = write_gguf("a.gguf");
  options_.want_tensors = true;
  const auto resolved = find(file);
  ASSERT_TRUE(resolved) << resolved.error().message();
  EXPECT_EQ(resolved->source, file);
  ASSERT_EQ(resolved->files.size(), 1U);
  EXPECT_EQ(resolved->files[0].path, file);
  EXPECT_FALSE(resolved->files[0].companion);
  EXPECT_EQ(resolved->files[0].identity.size, std::filesystem::file_size(file));
  EXPECT_EQ(resolved->files[0].identity, os::stat_path(file)->identity);
  EXPECT_EQ(resolved->bytes, std::filesystem::file_size(file));
  ASSERT_EQ(resolved->tensors.size(), 1U);
  EXPECT_EQ(resolved->tensors[0].offset + resolved->tensors[0].bytes, resolved->bytes);
  EXPECT_TRUE(resolved->notes.empty());
}

TEST_F(ResolverTest, TensorsOnlyWhenAsked) {
  const auto resolved = find(write_safetensors("a.safetensors"));
  ASSERT_TRUE(resolved);
  EXPECT_TRUE(resolved->tensors.empty());
}

TEST_F(ResolverTest, AnythingElseIsOpaque) {
  EXPECT_THAT(names(find(write("weights.onnx"))), ElementsAre("weights.onnx"));
}

TEST_F(ResolverTest, WhatHasNoBytesToKeepIsNoModel) {
  EXPECT_EQ(error_of(write("empty.dat", "")), "bad_format");
  EXPECT_EQ(error_of("/proc/meminfo"), "not_regular_file");
  EXPECT_EQ(error_of("/sys/kernel/notes"), "not_regular_file");
}

TEST_F(ResolverTest, WhatHasANameOrMagicMustParse) {
  EXPECT_EQ(error_of(write("a.gguf", "this is no GGUF file at all")), "bad_format");
  EXPECT_EQ(error_of(write("empty.gguf", "")), "truncated");
  EXPECT_EQ(error_of(write("a.safetensors", std::string(16, '\1'))), "too_large");
  EXPECT_EQ(error_of(write("empty.safetensors", "")), "truncated");
  EXPECT_EQ(error_of(write("blob", "GGUF and then nothing")), "bad_format");
  const std::string pointer = write("lfs.gguf", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_EQ(error_of(pointer), "bad_format");
  EXPECT_THAT(message_of(pointer), HasSubstr("Git LFS"));
}

TEST_F(ResolverTest, TruncatedFileIsNamed) {
  std::string bytes = testing::GgufBytes().tensor("t", 1000).bytes();
  bytes.resize(bytes.size() - 1);
  const std::string file = write("short.gguf", bytes);
  EXPECT_EQ(error_of(file), "truncated");
  EXPECT_THAT(message_of(file), HasSubstr("short.gguf"));
}

TEST_F(ResolverTest, MissingAndRelative) {
  EXPECT_EQ(error_of(path("nothing.gguf")), "source_not_found");
  EXPECT_EQ(error_of(path("nothing/at/all")), "source_not_found");
  EXPECT_EQ(error_of(""), "source_not_found");
  EXPECT_EQ(error_of(std::string("/x\0y", 4)), "source_not_found");
  EXPECT_EQ(error_of("/" + std::string(5000, 'x')), "too_large");
  const std::string file = write_gguf("a.gguf");
  EXPECT_EQ(error_of(file + "/"), "source_not_found");
  EXPECT_EQ(error_of(file + "/b"), "source_not_found");
}

TEST_F(ResolverTest, ARelativePathIsOnlyForWhoeverStartedUs) {
  const std::string relative = std::filesystem::path(write_gguf("a.gguf"))
                                   .lexically_relative(std::filesystem::current_path());
  EXPECT_EQ(error_of(relative), "none");
  options_.allow_roots = {dir_.path().string()};
  EXPECT_EQ(error_of(relative), "source_not_found");
}

TEST_F(ResolverTest, AnyShardNamesTheSet) {
  for (std::uint16_t i = 0; i < 3; ++i) {
    testing::GgufBytes shard;
    shard.u16("split.no", i).u16("split.count", 3).tensor("t", 8);
    write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", shard.bytes());
  }
  write_gguf("other.gguf");
  const auto set =
      ElementsAre("m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf");
  EXPECT_THAT(names(find(path("m-00001-of-00003.gguf"))), set);
  EXPECT_THAT(names(find(path("m-00003-of-00003.gguf"))), set);
  EXPECT_THAT(names(find(path("m-00002*.gguf"))), set);
}

TEST_F(ResolverTest, MissingShardsAreNamed) {
  write_gguf("m-00001-of-00004.gguf");
  write_gguf("m-00003-of-00004.gguf");
  for (const char* shard : {"m-00001-of-00004.gguf", "m-00002-of-00004.gguf"}) {
    EXPECT_EQ(error_of(path(shard)), "incomplete_shards");
    EXPECT_THAT(message_of(path(shard)), HasSubstr("m-00002-of-00004.gguf, m-00004-of-00004.gguf"));
  }
  EXPECT_EQ(error_of(dir_.path().string()), "incomplete_shards");
  EXPECT_EQ(error_of(path("n-00001-of-00004.gguf")), "source_not_found");
}

TEST_F(ResolverTest, AShardsHeaderMustAgreeWithItsName) {
  const auto shard = [](std::uint16_t number, std::uint16_t count) {
    return testing::GgufBytes().u16("split.no", number).u16("split.count", count).bytes();
  };
  write("a-00001-of-00002.gguf", shard(0, 2));
  write("a-00002-of-00002.gguf", shard(0, 2));
  EXPECT_EQ(error_of(path("a-00001-of-00002.gguf")), "bad_format");
  write("b-00001-of-00002.gguf", shard(0, 2));
  write("b-00002-of-00002.gguf", shard(1, 3));
  EXPECT_EQ(error_of(path("b-00001-of-00002.gguf")), "bad_format");
  const auto renamed = find(write("renamed.gguf", shard(1, 3)));
  EXPECT_TRUE(any_note(renamed, "shard 2 of 3"));
}

TEST_F(ResolverTest, AnIndexNamesItsShards) {
  write_safetensors("m/a.safetensors");
  write_safetensors("m/b.safetensors");
  write_safetensors("m/consolidated.safetensors");
  write("m/model.safetensors.index.json", index_of({"b.safetensors", "a.safetensors"}));
  const auto both = ElementsAre("m/a.safetensors", "m/b.safetensors");
  EXPECT_THAT(names(find(path("m/model.safetensors.index.json"))), both);
  const auto folder = find(path("m"));
  EXPECT_THAT(names(folder), both);
  EXPECT_TRUE(any_note(folder, "consolidated.safetensors is not in the folder's index"));
}

TEST_F(ResolverTest, WhatAnIndexMissesIsNamed) {
  write_safetensors("m/a.safetensors");
  const std::string index =
      write("m/model.safetensors.index.json", index_of({"a.safetensors", "gone.safetensors"}));
  EXPECT_EQ(error_of(index), "incomplete_shards");
  EXPECT_THAT(message_of(index), HasSubstr("gone.safetensors"));
  EXPECT_EQ(error_of(path("m")), "incomplete_shards");
}

TEST_F(ResolverTest, AnIndexMayNotLeadElsewhere) {
  write_safetensors("outside.safetensors");
  EXPECT_EQ(error_of(write("m/model.safetensors.index.json", index_of({"../outside.safetensors"}))),
            "bad_format");
}

TEST_F(ResolverTest, AFolderGivesItsWeights) {
  write_gguf("m/a.gguf");
  write_safetensors("m/sub/deeper/b.safetensors");
  write("m/c.pth");
  write("m/ggml-tiny.bin");
  write("m/README.md");
  write("m/training_args.bin");
  write("m/.cache/part.gguf", "unfinished");
  EXPECT_THAT(names(find(path("m"))),
              ElementsAre("m/a.gguf", "m/c.pth", "m/ggml-tiny.bin", "m/sub/deeper/b.safetensors"));
  EXPECT_THAT(names(find(path("m/"))), Contains("m/a.gguf"));
}

TEST_F(ResolverTest, AnOlderFormBesideSafetensorsIsLeftOut) {
  write_safetensors("m/model.safetensors");
  write("m/pytorch_model.bin");
  const auto resolved = find(path("m"));
  EXPECT_THAT(names(resolved), ElementsAre("m/model.safetensors"));
  EXPECT_TRUE(any_note(resolved, "pytorch_model.bin has safetensors beside it"));
}

TEST_F(ResolverTest, AFolderWithoutWeightsIsNoSource) {
  write("m/README.md");
  EXPECT_EQ(error_of(path("m")), "source_not_found");
  EXPECT_EQ(error_of(path("*.gguf")), "source_not_found");
}

TEST_F(ResolverTest, Globs) {
  write_gguf("x/a.gguf");
  write_gguf("x/b.gguf");
  write_gguf("y/c.gguf");
  write("x/notes.txt");
  write("x/e.onnx");
  EXPECT_THAT(names(find(path("x/*.gguf"))), ElementsAre("x/a.gguf", "x/b.gguf"));
  EXPECT_THAT(names(find(path("*/[ac].gguf"))), ElementsAre("x/a.gguf", "y/c.gguf"));
  EXPECT_THAT(names(find(path("x/*"))), ElementsAre("x/a.gguf", "x/b.gguf"));
  EXPECT_THAT(names(find(path("*/*.onnx"))), ElementsAre("x/e.onnx"));
  write_gguf("x/odd[1].gguf");
  EXPECT_THAT(names(find(path("x/odd[1].gguf"))), ElementsAre("x/odd[1].gguf"));
}

TEST_F(ResolverTest, CompanionsTakeEverything) {
  const std::string file = write_gguf("m/a.gguf");
  write("m/tokenizer.json");
  write("cache/deep/.hidden/kernel.ptx");
  const auto resolved = find(file, {path("m/tok*"), path("cache"), file});
  EXPECT_THAT(names(resolved),
              ElementsAre("m/a.gguf", "m/tokenizer.json", "cache/deep/.hidden/kernel.ptx"));
  EXPECT_FALSE(resolved->files[0].companion);
  EXPECT_TRUE(resolved->files[1].companion);
  EXPECT_TRUE(resolved->files[2].companion);
  EXPECT_EQ(error_of(file, {path("nothing*")}), "source_not_found");
  EXPECT_EQ(error_of(file, {path("nothing")}), "source_not_found");
}

TEST_F(ResolverTest, CompanionsHaveNoTensors) {
  options_.want_tensors = true;
  const auto resolved = find(write_gguf("a.gguf"), {write_safetensors("adapter.safetensors")});
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->files.size(), 2U);
  EXPECT_EQ(resolved->tensors.size(), 1U);
}

TEST_F(ResolverTest, OneInodeCountsOnce) {
  const std::string file = write_gguf("m/a.gguf");
  std::filesystem::create_hard_link(file, path("m/hard.gguf"));
  link("m/soft.gguf", "a.gguf");
  const auto resolved = find(path("m"));
  EXPECT_THAT(names(resolved), ElementsAre("m/a.gguf"));
  EXPECT_EQ(resolved->bytes, std::filesystem::file_size(file));
  EXPECT_TRUE(any_note(resolved, "hard.gguf is the same file as"));
  EXPECT_TRUE(any_note(resolved, "soft.gguf is the same file as"));
}

TEST_F(ResolverTest, TensorsNameTheirFile) {
  options_.want_tensors = true;
  write_gguf("m/a.gguf");
  std::filesystem::create_hard_link(path("m/a.gguf"), path("m/b.gguf"));
  write_safetensors("m/c.safetensors");
  const auto resolved = find(path("m"));
  ASSERT_TRUE(resolved);
  ASSERT_EQ(resolved->tensors.size(), 2U);
  EXPECT_EQ(resolved->tensors[0].file, 0U);
  EXPECT_EQ(resolved->tensors[1].file, 1U);
}

TEST_F(ResolverTest, SymlinksAreResolvedAndWatched) {
  const std::string file = write_gguf("real/a.gguf");
  link("dir", "real");
  link("b.gguf", path("dir/a.gguf"));
  const auto resolved = find(path("b.gguf"));
  EXPECT_THAT(names(resolved), ElementsAre("real/a.gguf"));
  EXPECT_THAT(resolved->watch, UnorderedElementsAre(path("b.gguf"), path("dir")));
  const auto folder = find(path("dir"));
  EXPECT_THAT(folder->watch, UnorderedElementsAre(path("dir"), path("real")));
}

TEST_F(ResolverTest, MetadataOfTheFirstGguf) {
  testing::GgufBytes gguf;
  gguf.string("general.architecture", "gemma3").u32("gemma3.block_count", 18);
  const auto resolved = find(write("a.gguf", gguf.bytes()));
  ASSERT_TRUE(resolved);
  ASSERT_TRUE(resolved->metadata);
  EXPECT_EQ(resolved->metadata->architecture, "gemma3");
  EXPECT_EQ(resolved->metadata->block_count, 18U);
}

}  // namespace
}  // namespace andiron::catalog
