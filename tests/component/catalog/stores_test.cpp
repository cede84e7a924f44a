// SPDX-License-Identifier: MIT
// Ollama's store and the Hugging Face cache, in the layouts that their own programs write.
#include "tests/component/catalog/catalog_fixture.hpp"

namespace andiron::catalog {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string digest(char c) { return std::string(64, c); }

class OllamaTest : public CatalogTest {
 protected:
  OllamaTest() { options_.places.ollama_stores = {path("store")}; }

  /// A blob of a GGUF file, and its layer's JSON.
  std::string layer(char c, const std::string& type = "model", const std::string& store = "store",
                    std::int64_t size_error = 0) const {
    const std::string bytes = testing::GgufBytes().tensor("t", 8, c).bytes();
    write(store + "/blobs/sha256-" + digest(c), bytes);
    return R"({"mediaType":"application/vnd.ollama.image.)" + type + R"(","digest":"sha256:)" +
           digest(c) + R"(","size":)" +
           std::to_string(static_cast<std::int64_t>(bytes.size()) + size_error) + "}";
  }
  void manifest(const std::string& name, const std::string& layers,
                const std::string& store = "store") const {
    write(store + "/manifests/" + name, R"({"schemaVersion":2,"layers":[)" + layers + "]}");
  }
  static std::string blob(char c) { return "store/blobs/sha256-" + digest(c); }
};

TEST_F(OllamaTest, ReadsAManifest) {
  manifest("registry.ollama.ai/library/llama3.2/3b",
           layer('a') + "," + layer('b', "template") + "," + layer('c', "projector"));
  options_.want_tensors = true;
  const auto resolved = find("ollama:llama3.2:3b");
  EXPECT_THAT(names(resolved), ElementsAre(blob('a'), blob('c')));
  EXPECT_EQ(resolved->tensors.size(), 2U);
  EXPECT_THAT(resolved->watch,
              Contains(path("store/manifests/registry.ollama.ai/library/llama3.2/3b")));
  EXPECT_TRUE(resolved->notes.empty());
  EXPECT_EQ(error_of("ollama:llama3.2"), "source_not_found");
  EXPECT_EQ(error_of("ollama:../llama3.2:3b"), "source_not_found");
}

TEST_F(OllamaTest, FillsInNames) {
  manifest("registry.ollama.ai/library/a/latest", layer('a'));
  manifest("registry.ollama.ai/user/b/x", layer('b'));
  manifest("hf.co/Org/Name/Q4_K_M", layer('c'));
  EXPECT_THAT(names(find("ollama:a")), ElementsAre(blob('a')));
  EXPECT_THAT(names(find("ollama:user/b:x")), ElementsAre(blob('b')));
  EXPECT_THAT(names(find("ollama:hf.co/org/name:q4_k_m")), ElementsAre(blob('c')));
}

TEST_F(OllamaTest, MissingBlobsAreNamed) {
  manifest("registry.ollama.ai/library/a/latest", layer('a') + "," + layer('b'));
  std::filesystem::remove(path(blob('b')));
  EXPECT_EQ(error_of("ollama:a"), "incomplete_shards");
  EXPECT_THAT(message_of("ollama:a"), HasSubstr("sha256-" + digest('b')));
}

TEST_F(OllamaTest, SizesMustAgree) {
  manifest("registry.ollama.ai/library/a/short", layer('a', "model", "store", 1));
  EXPECT_EQ(error_of("ollama:a:short"), "truncated");
  manifest("registry.ollama.ai/library/a/long", layer('b', "model", "store", -1));
  EXPECT_EQ(error_of("ollama:a:long"), "bad_format");
}

TEST_F(OllamaTest, ALayerTwiceCountsOnce) {
  const std::string one = layer('a');
  manifest("registry.ollama.ai/library/a/latest", one + "," + one);
  EXPECT_THAT(names(find("ollama:a")), ElementsAre(blob('a')));
}

TEST_F(OllamaTest, AModelWithoutWeights) {
  manifest("registry.ollama.ai/library/cloud/latest", layer('a', "params"));
  EXPECT_EQ(error_of("ollama:cloud"), "source_not_found");
  EXPECT_THAT(message_of("ollama:cloud"), HasSubstr("names no weights"));
}

TEST_F(OllamaTest, TheFirstStoreThatHasIt) {
  options_.places.ollama_stores = {path("empty"), path("store"), path("second")};
  manifest("registry.ollama.ai/library/a/latest", layer('a'));
  manifest("registry.ollama.ai/library/a/latest", layer('a', "model", "second"), "second");
  const auto resolved = find("ollama:a");
  EXPECT_THAT(names(resolved), ElementsAre(blob('a')));
  EXPECT_TRUE(any_note(resolved, "is also in the store " + path("second")));
  EXPECT_TRUE(any_note(resolved, "also lie at " + path("second/blobs/sha256-" + digest('a'))));
}

TEST_F(OllamaTest, ABrokenManifestIsAnError) {
  write("store/manifests/registry.ollama.ai/library/a/latest", "{");
  EXPECT_EQ(error_of("ollama:a"), "bad_format");
}

class HfTest : public OllamaTest {
 protected:
  HfTest() { options_.places.hf_caches = {path("hub")}; }

  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  void blob_file(const std::string& name, char c, const std::string& bytes) const {
    write("hub/models--org--m/blobs/" + digest(c), bytes);
    link("hub/models--org--m/snapshots/" + std::string(kCommit) + "/" + name,
         "../../blobs/" + digest(c));
  }
  void ref(const std::string& name) const { write("hub/models--org--m/refs/" + name, kCommit); }
  static std::string hf_blob(char c) { return "hub/models--org--m/blobs/" + digest(c); }
};

TEST_F(HfTest, FollowsRefsAndLinks) {
  ref("main");
  ref("refs/pr/1");
  blob_file("model.safetensors", 'a', testing::safetensors_vector("t", 8));
  blob_file("config.json", 'b', "{}");
  options_.want_tensors = true;
  for (const char* source : {"hf:org/m", "hf:org/m@main", "hf:org/m@refs/pr/1"}) {
    const auto resolved = find(source);
    EXPECT_THAT(names(resolved), ElementsAre(hf_blob('a'))) << source;
    EXPECT_EQ(resolved->tensors.size(), 1U);
  }
  EXPECT_THAT(names(find("hf:org/m@" + std::string(kCommit))), ElementsAre(hf_blob('a')));
  EXPECT_EQ(error_of("hf:org/m@other"), "source_not_found");
  EXPECT_EQ(error_of("hf:org/other"), "source_not_found");
  EXPECT_THAT(find("hf:org/m")->watch, Contains(path("hub/models--org--m/refs/main")));
}

TEST_F(HfTest, TakesWhatTheIndexNames) {
  ref("main");
  blob_file("model-00001-of-00002.safetensors", 'a', testing::safetensors_vector("x", 8));
  blob_file("model-00002-of-00002.safetensors", 'b', testing::safetensors_vector("y", 8));
  blob_file("model.safetensors.index.json", 'c',
            R"({"weight_map":{"x":"model-00001-of-00002.safetensors",)"
            R"("y":"model-00002-of-00002.safetensors"}})");
  EXPECT_THAT(names(find("hf:org/m")), ElementsAre(hf_blob('a'), hf_blob('b')));
  std::filesystem::remove(path(hf_blob('b')));
  EXPECT_EQ(error_of("hf:org/m"), "incomplete_shards");
  EXPECT_THAT(message_of("hf:org/m"), HasSubstr("model-00002-of-00002.safetensors"));
}

TEST_F(HfTest, ShardsOfGgufKeepTheirNames) {
  ref("main");
  testing::GgufBytes first;
  testing::GgufBytes second;
  first.u16("split.no", 0).u16("split.count", 2);
  second.u16("split.no", 1).u16("split.count", 2);
  blob_file("Q4/m-00001-of-00002.gguf", 'b', first.bytes());
  write("hub/models--org--m/blobs/" + digest('a'), second.bytes());
  link("hub/models--org--m/snapshots/" + std::string(kCommit) + "/Q4/m-00002-of-00002.gguf",
       "../../../blobs/" + digest('a'));
  std::filesystem::remove(
      path("hub/models--org--m/snapshots/" + std::string(kCommit) + "/Q4/m-00001-of-00002.gguf"));
  link("hub/models--org--m/snapshots/" + std::string(kCommit) + "/Q4/m-00001-of-00002.gguf",
       "../../../blobs/" + digest('b'));
  EXPECT_THAT(names(find("hf:org/m")), ElementsAre(hf_blob('b'), hf_blob('a')));
}

TEST_F(HfTest, ARefMayNotLeadElsewhere) {
  write("hub/models--org--m/refs/main", "../../../../etc");
  EXPECT_EQ(error_of("hf:org/m"), "bad_format");
}

TEST_F(HfTest, TheSameBlobInAnOllamaStoreIsPointedOut) {
  ref("main");
  const std::string one = layer('a');
  manifest("registry.ollama.ai/library/a/latest", one);
  blob_file("m.gguf", 'a', testing::GgufBytes().tensor("t", 8, 'a').bytes());
  EXPECT_TRUE(any_note(find("hf:org/m"), "also lie at " + path(blob('a'))));
  EXPECT_TRUE(any_note(find("ollama:a"), "also lie at " + path(hf_blob('a'))));
}

}  // namespace
}  // namespace andiron::catalog
