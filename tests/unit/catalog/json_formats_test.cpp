// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/base/json_walk.hpp"
#include "agent/catalog/assembly.hpp"
#include "agent/catalog/hf_cache.hpp"
#include "agent/catalog/ollama_store.hpp"
#include "agent/catalog/resolved_json.hpp"
#include "agent/catalog/weight_index.hpp"

namespace andiron::catalog {
namespace {

using ::testing::ElementsAre;

const std::string kHex(64, 'a');

template <class T>
std::string_view error_of(const Result<T>& result) {
  return result ? "none" : error_name(result.error().errc());
}

std::string layer(const std::string& type, const std::string& digest, const std::string& size) {
  return R"({"mediaType":")" + type + R"(","digest":")" + digest + R"(","size":)" + size + "}";
}

std::string manifest(const std::string& layers) {
  return R"({"schemaVersion":2,"config":{"mediaType":"x","digest":"y","size":1},"layers":[)" +
         layers + "]}";
}

TEST(OllamaManifest, TakesLayersOfWeightsInOrder) {
  const std::string prefix = "application/vnd.ollama.image.";
  const auto layers = parse_ollama_manifest(manifest(
      layer(prefix + "model", "sha256:" + kHex, "7") + "," +
      layer(prefix + "template", "sha256:" + std::string(64, 'b'), "1") + "," +
      layer(prefix + "projector", "sha256:" + std::string(64, 'c'), "8") + "," +
      layer(prefix + "tensor; name=x; dtype=BF16", "sha256-" + std::string(64, 'd'), "9")));
  ASSERT_TRUE(layers) << layers.error().message();
  ASSERT_EQ(layers->size(), 3U);
  EXPECT_EQ((*layers)[0].media_type, prefix + "model");
  EXPECT_EQ((*layers)[0].digest, kHex);
  EXPECT_EQ((*layers)[0].size, 7U);
  EXPECT_EQ((*layers)[1].media_type, prefix + "projector");
  EXPECT_EQ((*layers)[2].media_type, prefix + "tensor");
}

TEST(OllamaManifest, RefusesDigestsThatAreNone) {
  for (const std::string& digest :
       {std::string("sha256:../../etc/passwd"), std::string("sha256:") + std::string(63, 'a'),
        std::string("sha256:") + std::string(65, 'a'),
        std::string("sha256:") + std::string(64, 'A'), std::string("md5:") + kHex, kHex,
        std::string()}) {
    EXPECT_EQ(error_of(parse_ollama_manifest(
                  manifest(layer("application/vnd.ollama.image.license", digest, "1")))),
              "bad_format")
        << digest;
  }
}

TEST(OllamaManifest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "null", "{}", R"({"schemaVersion":1,"layers":[]})", R"({"schemaVersion":"2"})",
        R"({"schemaVersion":2,"layers":[{"mediaType":"x"}]})"}) {
    EXPECT_EQ(error_of(parse_ollama_manifest(text)), "bad_format") << text;
  }
  EXPECT_EQ(error_of(parse_ollama_manifest(manifest(layer("x", "sha256:" + kHex, "-1")))),
            "bad_format");
  EXPECT_EQ(error_of(parse_ollama_manifest(std::string(1 << 20, '['))), "bad_format");
}

TEST(OllamaName, FillsInWhatIsLeftOut) {
  const auto check = [](std::string_view text, std::string_view host, std::string_view name_space,
                        std::string_view model, std::string_view tag) {
    const auto name = parse_ollama_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(name->host, host) << text;
    EXPECT_EQ(name->name_space, name_space) << text;
    EXPECT_EQ(name->model, model) << text;
    EXPECT_EQ(name->tag, tag) << text;
  };
  check("llama3.2", "registry.ollama.ai", "library", "llama3.2", "latest");
  check("llama3.2:3b", "registry.ollama.ai", "library", "llama3.2", "3b");
  check("user/name:tag", "registry.ollama.ai", "user", "name", "tag");
  check("hf.co/org/name:Q4_K_M", "hf.co", "org", "name", "Q4_K_M");
  check("localhost:5000/a/b", "localhost:5000", "a", "b", "latest");
}

TEST(OllamaName, RefusesPaths) {
  for (const char* text : {"", ":", "a:", ":b", "../x", "a/..", "a/../b", "..", "a:..", "a/b/c/d",
                           "/etc/passwd", "a b", "a\nb", "a/b:c/d:..", "a:b:c"}) {
    EXPECT_EQ(error_of(parse_ollama_name(text)), "source_not_found") << text;
  }
}

TEST(HfName, Parses) {
  const auto plain = parse_hf_name("org/name");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository, "org/name");
  EXPECT_EQ(plain->revision, "main");
  const auto with_revision = parse_hf_name("gpt2@refs/pr/1");
  ASSERT_TRUE(with_revision);
  EXPECT_EQ(with_revision->repository, "gpt2");
  EXPECT_EQ(with_revision->revision, "refs/pr/1");
  for (const char* text :
       {"", "a/b/c", "a/..", "../b", "a@", "a@..", "a@../../x", "a@/etc", "a//b"})
    EXPECT_EQ(error_of(parse_hf_name(text)), "source_not_found") << text;
}

TEST(WeightIndex, NamesEachFileOnce) {
  const auto files = parse_weight_index(
      R"({"metadata":{"total_size":1},"weight_map":{"a":"m-2.safetensors","b":"m-1.safetensors",)"
      R"("c":"m-2.safetensors"}})");
  ASSERT_TRUE(files);
  EXPECT_THAT(*files, ElementsAre("m-1.safetensors", "m-2.safetensors"));
}

TEST(WeightIndex, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"../x.safetensors", "a/b", "/etc/shadow", "..", ".", ""}) {
    EXPECT_EQ(error_of(parse_weight_index(R"({"weight_map":{"a":")" + std::string(name) + "\"}}")),
              "bad_format")
        << name;
  }
  EXPECT_EQ(error_of(parse_weight_index("{\"weight_map\":{\"a\":\"b\\u0000c\"}}")), "bad_format");
  EXPECT_EQ(error_of(parse_weight_index(R"({"weight_map":{"a":1}})")), "bad_format");
  EXPECT_EQ(error_of(parse_weight_index(R"({"weight_map":{"a":["b"]}})")), "bad_format");
  EXPECT_EQ(error_of(parse_weight_index(R"({"weight_map":{}})")), "bad_format");
  EXPECT_EQ(error_of(parse_weight_index("{}")), "bad_format");
}

TEST(WeightIndex, KnowsItsName) {
  EXPECT_TRUE(is_weight_index_name("model.safetensors.index.json"));
  EXPECT_TRUE(is_weight_index_name("model.safetensors.index.fp16.json"));
  EXPECT_TRUE(is_weight_index_name("pytorch_model.bin.index.json"));
  EXPECT_FALSE(is_weight_index_name("config.json"));
  EXPECT_FALSE(is_weight_index_name("model.safetensors"));
}

TEST(ShardName, Parses) {
  const auto shard = parse_shard_name("Big-Q4-00002-of-00005.gguf");
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->prefix, "Big-Q4");
  EXPECT_EQ(shard->number, 2U);
  EXPECT_EQ(shard->count, 5U);
  EXPECT_EQ(shard->file_name(5), "Big-Q4-00005-of-00005.gguf");
  EXPECT_TRUE(parse_shard_name("model-00001-of-00002.safetensors"));
  for (const char* name :
       {"a-00000-of-00005.gguf", "a-00006-of-00005.gguf", "a-0001-of-0005.gguf", "a.gguf",
        "-00001-of-00005.gguf", "a-00001-of-00005.bin", "a-0000x-of-00005.gguf"}) {
    EXPECT_FALSE(parse_shard_name(name)) << name;
  }
}

TEST(ResolvedJson, HasTheFormOfTheContract) {
  Resolved resolved;
  resolved.source = "x\"y";
  resolved.files.push_back({"/m/a.gguf", {1, 2, 30, 0, 0}, false});
  resolved.files.push_back({"/m/tok\xff", {1, 3, 4, 0, 0}, true});
  resolved.bytes = 34;
  resolved.tensors.push_back({"t", "F32", {2, 3}, 0, 6, 24});
  resolved.notes = {"n"};
  EXPECT_EQ(to_json(resolved),
            "{\"source\":\"x\\\"y\",\"files\":[{\"path\":\"/m/a.gguf\",\"bytes\":30,\"dev\":1,"
            "\"ino\":2},{\"path\":\"/m/tok\xEF\xBF\xBD\",\"bytes\":4,\"dev\":1,\"ino\":3}],"
            "\"bytes\":34,\"tensors\":[{\"name\":\"t\",\"dtype\":\"F32\",\"shape\":[2,3],"
            "\"file\":\"/m/a.gguf\",\"offset\":6,\"bytes\":24}],\"also\":[\"/m/tok\xEF\xBF\xBD\"],"
            "\"notes\":[\"n\"]}");
}

}  // namespace
}  // namespace andiron::catalog
