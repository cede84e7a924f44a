// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "agent/cli/setup_machine.hpp"
#include "agent/cli/setup_tree.hpp"
#include "agent/cli/setup_write.hpp"
#include "tests/component/setup/machine_tree.hpp"

namespace andiron::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MachineTree;
using ::testing::SizeIs;

class SetupScan : public ::testing::Test {
 protected:
  Machine scan(const ScanLimits& limits = {}) {
    TreeReader tree(tree_.root(), limits, clock_);
    return scan_machine(tree, {}, {});
  }
  std::vector<std::string> labels(const Machine& machine) {
    std::vector<std::string> found;
    for (const FoundModel& model : machine.models) {
      found.push_back(model.label);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  SystemClock clock_;
  MachineTree tree_;
};

TEST_F(SetupScan, EndsInLoopsOfSymlinks) {
  tree_.gguf("/srv/models/a.gguf", 1);
  tree_.link("..", "/srv/models/loop");
  tree_.link(".", "/srv/models/self.gguf");
  EXPECT_THAT(labels(scan()), ElementsAre("a"));
}

TEST_F(SetupScan, LooksNoDeeperThanItsLimit) {
  tree_.gguf("/srv/models/1/2/3/4/near.gguf", 1);
  tree_.gguf("/srv/models/1/2/3/4/5/far.gguf", 2);
  EXPECT_THAT(labels(scan()), ElementsAre("near"));
}

TEST_F(SetupScan, StopsInAHugeFolderAndSaysSo) {
  for (int i = 0; i < 60; ++i) {
    tree_.write(fmt::format("/srv/models/{}/x", i), "");
  }
  const Machine machine = scan({.entries = 50});
  EXPECT_THAT(machine.notes, Contains(HasSubstr("first 50 entries")));
}

TEST_F(SetupScan, StopsAtItsMostModels) {
  for (int i = 0; i < 30; ++i) {
    tree_.gguf(fmt::format("/srv/models/{:02}.gguf", i), i);
  }
  const Machine machine = scan({.models = 10});
  EXPECT_THAT(machine.models, SizeIs(10));
  EXPECT_THAT(machine.notes, Contains(HasSubstr("Stopped at 10 models")));
}

TEST_F(SetupScan, StopsWhenItsTimeIsOver) {
  tree_.gguf("/srv/models/a.gguf", 1);
  const Machine machine = scan({.time = std::chrono::milliseconds(0)});
  EXPECT_THAT(machine.models, IsEmpty());
  EXPECT_THAT(machine.notes, Contains(HasSubstr("Stopped looking")));
}

TEST_F(SetupScan, IsNotHeldByAFifoInThePlaceOfAFile) {
  tree_.gguf("/srv/models/a.gguf", 1);
  ASSERT_EQ(::mkfifo(tree_.at("/srv/models/b.gguf").c_str(), 0644), 0);
  tree_.write("/usr/share/ollama/.ollama/models/blobs/x", "");
  tree_.write("/usr/share/ollama/.ollama/models/manifests/registry.ollama.ai/library/m/x", "{");
  ASSERT_EQ(::mkfifo(tree_
                         .at("/usr/share/ollama/.ollama/models/manifests/registry.ollama.ai/"
                             "library/m/latest")
                         .c_str(),
                     0644),
            0);
  EXPECT_THAT(labels(scan()), ElementsAre("a"));
}

TEST_F(SetupScan, TakesNoPathOutOfAManifest) {
  tree_.write("/etc/shadow", "secret");
  const std::string store = "/usr/share/ollama/.ollama/models";
  tree_.write(store + "/blobs/x", "");
  tree_.write(store + "/manifests/registry.ollama.ai/library/evil/latest",
              R"({"layers":[{"mediaType":"application/vnd.ollama.image.model",)"
              R"("digest":"sha256:../../../../../../etc/shadow"}]})");
  EXPECT_THAT(scan().models, IsEmpty());
}

TEST_F(SetupScan, NamesModelsAsOllamaDoes) {
  const std::string store = "/usr/share/ollama/.ollama/models";
  tree_.ollama(store, "llama3.2", "3b", 1);
  const std::string manifests = store + "/manifests/";
  const std::string manifest = manifests + "registry.ollama.ai/library/llama3.2/3b";
  const auto copy = [&](const std::string& to) {
    std::filesystem::create_directories(std::filesystem::path(tree_.at(to)).parent_path());
    std::filesystem::copy(tree_.at(manifest), tree_.at(to));
  };
  copy(manifests + "registry.ollama.ai/someone/tuned/latest");
  copy(manifests + "hf.co/bartowski/X-GGUF/Q4_K_M");
  EXPECT_THAT(labels(scan()),
              ElementsAre("hf.co/bartowski/X-GGUF:Q4_K_M", "llama3.2:3b", "someone/tuned:latest"));
}

TEST_F(SetupScan, SaysWhichPullIsNotComplete) {
  const std::string blob = tree_.ollama("/usr/share/ollama/.ollama/models", "m", "latest", 1);
  std::filesystem::remove(blob);
  const Machine machine = scan();
  EXPECT_THAT(machine.models, IsEmpty());
  EXPECT_THAT(machine.notes, Contains(HasSubstr("m:latest is not complete")));
}

TEST_F(SetupScan, FindsRelativePathsThroughTheWorkingFolder) {
  tree_.gguf("/data/x/a.gguf", 1);
  tree_.process({.pid = 9,
                 .comm = "llama-server",
                 .exe = "/x/llama-server",
                 .args = {"llama-server", "--model=a.gguf"}});
  tree_.link("/data/x", "/proc/9/cwd");
  const Machine machine = scan();
  ASSERT_THAT(machine.models, SizeIs(1));
  EXPECT_THAT(machine.models[0].in_use_by, ElementsAre("llama-server (pid 9)"));
}

TEST_F(SetupScan, SeesWhatAProcessHasOpen) {
  const std::string path = tree_.gguf("/srv/models/a.gguf", 1);
  tree_.process({.pid = 9, .comm = "local-ai", .exe = "/usr/bin/local-ai", .args = {"local-ai"}});
  tree_.link(path, "/proc/9/fd/17");
  const Machine machine = scan();
  ASSERT_THAT(machine.models, SizeIs(1));
  EXPECT_THAT(machine.models[0].in_use_by, ElementsAre("localai (pid 9)"));
}

TEST_F(SetupScan, KeepsNoSecretsOfAnEnvironment) {
  tree_.process({.pid = 9,
                 .comm = "ollama",
                 .exe = "/usr/bin/ollama",
                 .args = {"ollama", "serve"},
                 .environment = {"OLLAMA_KEEP_ALIVE=1h", "HF_TOKEN=hf_secret"}});
  const Machine machine = scan();
  ASSERT_THAT(machine.runtimes, SizeIs(1));
  EXPECT_EQ(machine.runtimes[0].environment.count("OLLAMA_KEEP_ALIVE"), 1U);
  EXPECT_EQ(machine.runtimes[0].environment.count("HF_TOKEN"), 0U);
}

TEST_F(SetupScan, ReadsGpusOfTheDriverAndOfPci) {
  tree_.write("/proc/driver/nvidia/gpus/0000:01:00.0/information",
              "Model: \t\t NVIDIA GeForce RTX 3090\nIRQ:   \t\t 78\n"
              "GPU UUID: \t GPU-0123\nBus Location: \t 0000:01:00.0\n");
  const auto pci = [&](const std::string& slot, const std::string& kind,
                       const std::string& vendor) {
    tree_.write("/sys/bus/pci/devices/" + slot + "/class", kind + "\n");
    tree_.write("/sys/bus/pci/devices/" + slot + "/vendor", vendor + "\n");
    tree_.write("/sys/bus/pci/devices/" + slot + "/device", "0x1234\n");
  };
  pci("0000:01:00.0", "0x030000", "0x10de");
  pci("0000:03:00.0", "0x030000", "0x1002");
  pci("0000:04:00.0", "0x030000", "0x1a03");  // a server's console
  pci("0000:05:00.0", "0x020000", "0x8086");  // a network card
  tree_.write("/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total", "17163091968\n");
  TreeReader tree(tree_.root(), {}, clock_);
  const std::vector<FoundGpu> gpus = scan_gpus(tree, "GPU-0123, 24576, NVIDIA GeForce RTX 3090\n");
  ASSERT_THAT(gpus, SizeIs(2));
  EXPECT_EQ(gpus[0].name, "NVIDIA GeForce RTX 3090");
  EXPECT_EQ(gpus[0].uuid, "GPU-0123");
  EXPECT_EQ(gpus[0].vram, std::uint64_t{24576} << 20);
  EXPECT_EQ(gpus[1].vendor, "AMD");
  EXPECT_EQ(gpus[1].vram, 17163091968U);
}

TEST_F(SetupScan, TakesCopiesForTheSameWeights) {
  tree_.gguf("/srv/models/a.gguf", 1, 100'000);
  tree_.gguf("/srv/models/b.gguf", 1, 100'000);
  tree_.gguf("/srv/models/c.gguf", 2, 100'000);
  const Machine machine = scan();
  ASSERT_THAT(machine.models, SizeIs(3));
  EXPECT_TRUE(same_weights(machine.models[0], machine.models[1]));
  EXPECT_FALSE(same_weights(machine.models[0], machine.models[2]));
}

TEST_F(SetupScan, TakesAPipelineForOneModel) {
  tree_.write("/srv/models/sdxl/model_index.json", "{}");
  tree_.write("/srv/models/sdxl/unet/config.json", "{}");
  tree_.safetensors("/srv/models/sdxl/unet/weights.safetensors", 1);
  tree_.safetensors("/srv/models/sdxl/vae/weights.safetensors", 2);
  const Machine machine = scan();
  ASSERT_THAT(machine.models, SizeIs(1));
  EXPECT_EQ(machine.models[0].label, "sdxl");
  EXPECT_THAT(machine.models[0].files, SizeIs(2));
}

TEST_F(SetupScan, WritesThroughASymlinkAndKeepsTheMode) {
  tree_.write("/dotfiles/andiron.toml", "# mine\n");
  ASSERT_EQ(::chmod(tree_.at("/dotfiles/andiron.toml").c_str(), 0600), 0);
  tree_.link("../dotfiles/andiron.toml", "/etc/andiron.toml");
  const auto written = write_config(tree_.at("/etc/andiron.toml"), "# new\n");
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(written->path, tree_.at("/dotfiles/andiron.toml"));
  struct stat info {};
  ASSERT_EQ(::lstat(written->path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  ASSERT_EQ(::lstat(tree_.at("/etc/andiron.toml").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
}

TEST_F(SetupScan, WritesOverNothingButAFile) {
  std::filesystem::create_directories(tree_.at("/etc/andiron.toml"));
  EXPECT_FALSE(write_config(tree_.at("/etc/andiron.toml"), "x"));
  tree_.link("nowhere", "/etc/dangling.toml");
  EXPECT_FALSE(write_config(tree_.at("/etc/dangling.toml"), "x"));
}

}  // namespace
}  // namespace andiron::cli
