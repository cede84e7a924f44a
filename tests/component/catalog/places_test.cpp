// SPDX-License-Identifier: MIT
#include "tests/component/catalog/catalog_fixture.hpp"

namespace andiron::catalog {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PlacesTest : public CatalogTest {
 protected:
  std::string store(const std::string& name) const {
    std::filesystem::create_directories(dir_ / (name + "/manifests"));
    std::filesystem::create_directories(dir_ / (name + "/blobs"));
    return path(name);
  }
  std::string cache(const std::string& name) const {
    std::filesystem::create_directories(dir_ / name);
    return path(name);
  }
  Places places(const std::map<std::string, std::string>& environment = {}) const {
    return find_places(dir_.path().string(), environment);
  }
};

TEST_F(PlacesTest, NothingThere) {
  EXPECT_THAT(places().ollama_stores, IsEmpty());
  EXPECT_THAT(places().hf_caches, IsEmpty());
}

TEST_F(PlacesTest, HomesAndTheServiceUser) {
  write("etc/passwd",
        "root:x:0:0::/root:/bin/sh\nana:x:1:1::/data/ana:/bin/sh\nbad line\nx:x:1:1::/:/bin/sh\n");
  const std::vector<std::string> stores = {
      store("usr/share/ollama/.ollama/models"), store("data/ana/.ollama/models"),
      store("home/ben/.ollama/models"), store("root/.ollama/models")};
  cache("home/ben/.cache/huggingface/hub");
  EXPECT_EQ(places().ollama_stores, stores);
  EXPECT_THAT(places().hf_caches, ElementsAre(path("home/ben/.cache/huggingface/hub")));
}

TEST_F(PlacesTest, Environment) {
  store("m1");
  store("m2");
  cache("h1");
  cache("h2/hub");
  const Places found =
      places({{"OLLAMA_MODELS", "/m1"}, {"HF_HUB_CACHE", "/h1"}, {"HF_HOME", "/h2"}});
  EXPECT_THAT(found.ollama_stores, ElementsAre(path("m1")));
  EXPECT_THAT(found.hf_caches, ElementsAre(path("h1"), path("h2/hub")));
  EXPECT_THAT(places({{"OLLAMA_MODELS", "relative"}}).ollama_stores, IsEmpty());
}

TEST_F(PlacesTest, RunningServers) {
  store("srv/a");
  store("srv/b");
  write("proc/100/comm", "ollama\n");
  write("proc/100/environ", std::string("A=1\0OLLAMA_MODELS=/srv/a\0B=2\0", 29));
  write("proc/200/comm", "bash\n");
  write("proc/200/environ", std::string("OLLAMA_MODELS=/srv/b\0", 21));
  EXPECT_THAT(places().ollama_stores, ElementsAre(path("srv/a")));
}

TEST_F(PlacesTest, ServiceDropIns) {
  store("a");
  store("b");
  store("c d");
  store("e");
  store("f");
  write("etc/systemd/system/ollama.service", "[Service]\nEnvironment=OLLAMA_MODELS=/a\n");
  write("etc/systemd/system/ollama.service.d/10.conf",
        "[Service]\nEnvironment=X=1 \"OLLAMA_MODELS=/c d\" Y=2\n#Environment=OLLAMA_MODELS=/e\n");
  write("etc/systemd/system/ollama.service.d/20.conf", "EnvironmentFile=-/etc/default/ollama\n");
  write("etc/default/ollama", "OLLAMA_MODELS='/b'\nEnvironmentFile=/etc/default/ollama\n");
  write("usr/lib/systemd/system/ollama.service.d/x.conf", "Environment='OLLAMA_MODELS=/f'\n");
  EXPECT_THAT(places().ollama_stores, ElementsAre(path("b"), path("c d"), path("a"), path("f")));
}

TEST_F(PlacesTest, VolumesOfContainers) {
  write("etc/docker/daemon.json", R"({"data-root":"/big/docker"})");
  const std::vector<std::string> stores = {
      store("home/ana/.local/share/containers/storage/volumes/v/_data/models"),
      store("big/docker/volumes/v/_data/models"),
      store("var/lib/docker/volumes/v/_data"),
      store("var/lib/containers/storage/volumes/v/_data/.ollama/models"),
  };
  cache("var/lib/docker/volumes/tgi/_data/models--org--m");
  cache("var/lib/docker/volumes/vllm/_data/hub");
  EXPECT_EQ(places().ollama_stores, stores);
  EXPECT_THAT(places().hf_caches,
              UnorderedElementsAre(path("var/lib/docker/volumes/tgi/_data"),
                                   path("var/lib/docker/volumes/vllm/_data/hub")));
}

TEST_F(PlacesTest, OneStoreOnce) {
  store("usr/share/ollama/.ollama/models");
  link("m", path("usr/share/ollama/.ollama/models"));
  EXPECT_THAT(places({{"OLLAMA_MODELS", "/m"}}).ollama_stores, ElementsAre(path("m")));
}

}  // namespace
}  // namespace andiron::catalog
