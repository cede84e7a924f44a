// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/cli/setup_json.hpp"
#include "agent/cli/setup_processes.hpp"
#include "agent/cli/setup_tree.hpp"
#include "agent/cli/setup_warnings.hpp"

namespace andiron::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

ProcessView process(const std::string& comm, const std::string& exe,
                    const std::vector<std::string>& args) {
  ProcessView view;
  view.pid = 1;
  view.comm = comm;
  view.exe = exe;
  view.args = args;
  return view;
}

TEST(RuntimeKind, KnowsRuntimesByTheirBinaryOrScript) {
  struct Case {
    const char* kind;
    ProcessView view;
  };
  const std::vector<Case> cases{
      {"ollama", process("ollama", "/usr/local/bin/ollama", {"ollama", "serve"})},
      {"llama-server", process("llama-server", "", {"/app/llama-server", "-m", "x"})},
      {"llama-swap", process("llama-swap", "/app/llama-swap", {"/app/llama-swap"})},
      {"vllm", process("vllm", "/usr/bin/python3", {"python3", "/usr/local/bin/vllm", "serve"})},
      {"vllm", process("python3", "/usr/bin/python3",
                       {"python3", "-m", "vllm.entrypoints.openai.api_server"})},
      {"localai", process("local-ai", "/usr/bin/local-ai", {"local-ai"})},
      {"lm-studio", process("lm-studio", "/opt/LM Studio/lm-studio", {"lm-studio"})},
      {"comfyui", process("python", "/usr/bin/python3.11", {"python", "/opt/ComfyUI/main.py"})},
      {"faster-whisper",
       process("python3", "/usr/bin/python3", {"python3", "-m", "wyoming_faster_whisper"})},
      {"immich-ml", process("gunicorn", "/usr/bin/python3",
                            {"python3", "/usr/bin/gunicorn", "immich_ml.main:app"})},
      {"frigate", process("frigate.capture", "/usr/bin/python3", {"frigate.capture:door"})},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(runtime_kind(one.view), one.kind) << one.view.args.front();
  }
}

TEST(RuntimeKind, IsNotFooledByArgumentsThatMentionOne) {
  EXPECT_EQ(runtime_kind(process("vim", "/usr/bin/vim", {"vim", "ollama"})), "");
  EXPECT_EQ(runtime_kind(process("grep", "/usr/bin/grep", {"grep", "llama-server"})), "");
  EXPECT_EQ(runtime_kind(process("python3", "/usr/bin/python3",
                                 {"python3", "a.py", "1", "2", "3", "comfyui"})),
            "");
  EXPECT_EQ(runtime_kind(process("kthreadd", "", {})), "");
}

TEST(OllamaManifest, GivesItsWeightLayersOnly) {
  const std::string digest = "sha256:" + std::string(64, 'a');
  const auto layer = [&](const std::string& kind, const std::string& of) {
    return fmt::format(R"({{"mediaType":"application/vnd.ollama.image.{}","digest":"{}"}})", kind,
                       of);
  };
  const std::vector<OllamaLayer> layers = ollama_weight_layers(fmt::format(
      R"({{"layers":[{},{},{},{},{}]}})", layer("model", digest), layer("params", digest),
      layer("projector", digest), layer("model", "sha256:" + std::string(64, '.')),
      layer("model", "sha256:../../x")));
  ASSERT_THAT(layers, SizeIs(2));
  EXPECT_EQ(layers[0].media_type, "application/vnd.ollama.image.model");
  EXPECT_EQ(layers[1].media_type, "application/vnd.ollama.image.projector");
}

TEST(OllamaManifest, GivesNothingForWhatItCannotRead) {
  for (const char* text :
       {"", "{", "[]", "null", "7", R"({"layers":7})", R"({"layers":[7,null,{}]})",
        R"({"layers":[{"mediaType":7,"digest":[]}]})"}) {
    EXPECT_THAT(ollama_weight_layers(text), IsEmpty()) << text;
  }
  EXPECT_THAT(ollama_weight_layers(std::string(100'000, '[')), IsEmpty());
}

TEST(ContainerNames, AreReadFromBothEngines) {
  EXPECT_EQ(docker_name(R"({"Name":"/ollama"})"), "ollama");
  EXPECT_EQ(docker_name(R"({"Name":7})"), "");
  EXPECT_EQ(docker_name("[1]"), "");
  EXPECT_EQ(podman_names(R"([{"id":"ab","names":["x"]},{"id":7},{"id":"c","names":[]}])"),
            (std::map<std::string, std::string>{{"ab", "x"}}));
}

TEST(FileSystems, AreToldApartByWhatTheyDoToThePageCache) {
  for (const char* type : {"zfs", "9p", "fuse.mergerfs", "fuse"}) {
    EXPECT_FALSE(keeps_page_cache(type)) << type;
  }
  for (const char* type : {"ext4", "xfs", "btrfs", "nfs4", "fuseblk", "overlay"}) {
    EXPECT_TRUE(keeps_page_cache(type)) << type;
  }
  EXPECT_TRUE(is_network_type("nfs4"));
  EXPECT_TRUE(is_network_type("fuse.sshfs"));
  EXPECT_FALSE(is_network_type("fuseblk"));
  EXPECT_FALSE(is_network_type("ext4"));
}

}  // namespace
}  // namespace andiron::cli
