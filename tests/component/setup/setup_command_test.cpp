// SPDX-License-Identifier: MIT
// Runs andironctl on trees that look like machines, and proves what it writes: the config compiles,
// and each model in it resolves to the files that it was about.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "agent/base/unique_fd.hpp"
#include "agent/catalog/resolver.hpp"
#include "agent/config/compile.hpp"
#include "tests/component/cli/fake_agent.hpp"
#include "tests/component/setup/machine_tree.hpp"

namespace andiron::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

[[noreturn]] void exec_setup(const std::vector<std::string>& args) {
  std::vector<const char*> argv{ANDIRONCTL, "setup"};
  for (const std::string& arg : args) {
    argv.push_back(arg.c_str());
  }
  argv.push_back(nullptr);
  // The test's own agent, if the machine has one, must not be asked.
  ::unsetenv("ANDIRON_SOCKET");
  ::execv(ANDIRONCTL, const_cast<char* const*>(argv.data()));
  ::_exit(127);
}

class SetupCommand : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> args) {
    args.insert(args.end(), {"--root", tree_.root(), "--output", output_});
    const std::string out = out_dir_ / "stdout";
    const std::string err = out_dir_ / "stderr";
    const pid_t child = ::fork();
    if (child == 0) {
      const int none = ::open("/dev/null", O_RDONLY);
      const int out_fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      const int err_fd = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      ::dup2(none, 0);
      ::dup2(out_fd, 1);
      ::dup2(err_fd, 2);
      exec_setup(args);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(out), content(err)};
  }

  config::Settings written() {
    const config::Compiled compiled = config::compile_file(output_);
    for (const config::Diagnostic& error : compiled.errors) {
      ADD_FAILURE() << error.to_string() << "\n" << content(output_);
    }
    return compiled.settings;
  }

  /// The files that a written model means to an agent on that machine, by their real paths.
  std::vector<std::string> files_of(const config::ModelSettings& model) {
    catalog::ResolveOptions options;
    options.places = catalog::find_places(tree_.root(), {});
    const auto resolved = catalog::resolve(model.source, model.also, options);
    if (!resolved) {
      ADD_FAILURE() << model.source << ": " << resolved.error().message();
      return {};
    }
    std::vector<std::string> paths;
    for (const catalog::ModelFile& file : resolved->files) {
      paths.push_back(file.path);
    }
    return paths;
  }

  /// Last used so long ago: the blob and what the store says of it.
  void age(const std::string& path, int days) { tree_.used(path, days * 86'400L + 3600); }

  MachineTree tree_;
  TempDir out_dir_;
  std::string output_ = out_dir_ / "etc/andiron/andiron.toml";
};

constexpr const char* kContainerId =
    "4f2a0c1b5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f701";

TEST_F(SetupCommand, KeepsTheModelThatADockerOllamaHasLoaded) {
  const std::string store = "/var/lib/docker/volumes/ollama/_data/models";
  tree_.ollama(store, "qwen3", "8b", 1);
  const std::string blob = tree_.ollama(store, "llama3.2", "3b", 2);
  tree_.write(fmt::format("/var/lib/docker/containers/{}/config.v2.json", kContainerId),
              R"({"ID":"x","Name":"/ollama"})");
  const std::string cgroup = fmt::format("/system.slice/docker-{}.scope", kContainerId);
  tree_.process({.pid = 410,
                 .comm = "ollama",
                 .exe = "/usr/bin/ollama",
                 .args = {"/bin/ollama", "serve"},
                 .cgroup = cgroup});
  tree_.process({.pid = 455,
                 .comm = "llama-server",
                 .exe = "/usr/lib/ollama/llama-server",
                 .args = {"/usr/lib/ollama/llama-server", "--port", "41235"},
                 .cgroup = cgroup,
                 .maps = {blob}});

  const Outcome outcome = run({"--write"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  const config::ModelSettings& model = settings.models.front();
  EXPECT_EQ(model.name, "llama3.2:3b");
  EXPECT_EQ(model.source, "ollama:llama3.2:3b");
  EXPECT_THAT(files_of(model), ElementsAre(blob));
  EXPECT_EQ(model.priority, Priority::interactive);
  EXPECT_TRUE(model.preload.boot);
  EXPECT_THAT(model.preload.containers, ElementsAre("ollama"));
  EXPECT_THAT(settings.agent.allow_roots, ElementsAre(tree_.at(store)));
  EXPECT_THAT(outcome.out, HasSubstr("loaded now by llama-server (pid 455, container ollama)"));
  EXPECT_THAT(outcome.out, HasSubstr("qwen3:8b"));
}

TEST_F(SetupCommand, TakesTheRightOneOfTwoUsersStoresWithTheSameName) {
  tree_.ollama("/home/ann/.ollama/models", "llama3.2", "3b", 1);
  const std::string bobs = tree_.ollama("/home/bob/.ollama/models", "llama3.2", "3b", 2);
  tree_.process({.pid = 77,
                 .comm = "ollama",
                 .exe = "/usr/local/bin/ollama",
                 .args = {"ollama", "runner", "--model",
                          "/home/bob/.ollama/models/blobs/" + bobs.substr(bobs.rfind('/') + 1)}});
  ASSERT_EQ(run({"--write"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_THAT(files_of(settings.models.front()), ElementsAre(bobs));
}

TEST_F(SetupCommand, KeepsAPerUserOllamasMostRecentlyUsedModel) {
  const std::string store = "/home/ann/.ollama/models";
  const std::string manifests = tree_.at(store) + "/manifests/registry.ollama.ai/library/";
  const std::string fresh = tree_.ollama(store, "gemma3", "4b", 3);
  age(tree_.ollama(store, "mistral", "7b", 4), 40);
  age(manifests + "mistral/7b", 90);
  ASSERT_EQ(run({"--write"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_EQ(settings.models.front().source, "ollama:gemma3:4b");
  EXPECT_THAT(files_of(settings.models.front()), ElementsAre(fresh));
  EXPECT_THAT(content(output_), HasSubstr("#source = \"ollama:mistral:7b\""));
}

TEST_F(SetupCommand, KeepsAModelOfAHuggingFaceCache) {
  const std::string cache = "/home/ann/.cache/huggingface/hub";
  const std::string blob = tree_.hugging_face(cache, "Qwen", "Qwen2.5-0.5B-Instruct", 5);
  tree_.process(
      {.pid = 900,
       .comm = "vllm",
       .exe = "/usr/bin/python3.11",
       .args = {"python3", "/usr/local/bin/vllm", "serve", "Qwen/Qwen2.5-0.5B-Instruct"}});
  ASSERT_EQ(run({"--write"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_EQ(settings.models.front().name, "Qwen2.5-0.5B-Instruct");
  EXPECT_EQ(settings.models.front().source, "hf:Qwen/Qwen2.5-0.5B-Instruct");
  EXPECT_THAT(files_of(settings.models.front()), ElementsAre(blob));
  EXPECT_THAT(settings.agent.allow_roots, ElementsAre(tree_.at(cache)));
}

TEST_F(SetupCommand, KeepsTheFileThatALlamaServerWasStartedWith) {
  const std::string model = tree_.gguf("/srv/models/vision/gemma-3-4b-it-Q4_K_M.gguf", 6);
  const std::string projector = tree_.gguf("/srv/models/vision/mmproj-F16.gguf", 7);
  tree_.gguf("/srv/models/other.gguf", 8);
  tree_.process({.pid = 31,
                 .comm = "llama-server",
                 .exe = "/opt/llama/llama-server",
                 .args = {"llama-server", "-m", "/srv/models/vision/gemma-3-4b-it-Q4_K_M.gguf"}});
  ASSERT_EQ(run({"--write"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_EQ(settings.models.front().source, model);
  EXPECT_THAT(files_of(settings.models.front()), ElementsAre(model, projector));
  EXPECT_THAT(settings.agent.allow_roots, ElementsAre(tree_.at("/srv/models")));
}

TEST_F(SetupCommand, WritesAPathForAStoreThatTheAgentWouldNotFind) {
  // A bind mount of a compose file: nothing on the machine but the container's mounts tells of it.
  const std::string blob = tree_.ollama("/tank/ai/ollama/models", "phi4", "latest", 9);
  tree_.process({.pid = 12,
                 .comm = "ollama",
                 .exe = "/usr/bin/ollama",
                 .args = {"/bin/ollama", "serve"},
                 .cgroup = fmt::format("/docker/{}", kContainerId),
                 .mountinfo = "60 1 0:40 / / rw - overlay overlay rw\n"
                              "61 60 8:1 /tank/ai/ollama /root/.ollama rw - ext4 /dev/sda1 rw\n"});
  ASSERT_EQ(run({"--write"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_EQ(settings.models.front().source, blob);
  EXPECT_EQ(settings.models.front().name, "phi4:latest");
  EXPECT_THAT(files_of(settings.models.front()), ElementsAre(blob));
}

TEST_F(SetupCommand, KeepsAllShardsOfASplitFile) {
  std::vector<std::string> shards;
  for (int i = 1; i <= 3; ++i) {
    shards.push_back(tree_.gguf(fmt::format("/opt/models/big-0000{}-of-00003.gguf", i), 20 + i));
  }
  ASSERT_EQ(run({"--write", "--models", "big"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_EQ(settings.models.front().name, "big");
  EXPECT_THAT(files_of(settings.models.front()),
              UnorderedElementsAre(shards[0], shards[1], shards[2]));
}

TEST_F(SetupCommand, NeverProposesAllOfACatalogue) {
  for (int i = 0; i < 12; ++i) {
    tree_.gguf(fmt::format("/srv/models/model-{:02}.gguf", i), 30 + i);
  }
  ASSERT_EQ(run({"--write"}).status, 0);
  EXPECT_EQ(written().models.size(), 2U);
}

TEST_F(SetupCommand, ChoosesWhatItIsAskedToInThatOrderOfPriority) {
  tree_.gguf("/srv/models/a.gguf", 1);
  const std::string b = tree_.gguf("/srv/models/b.gguf", 2);
  const std::string store = "/usr/share/ollama/.ollama/models";
  const std::string blob = tree_.ollama(store, "nomic-embed-text", "latest", 3);
  ASSERT_EQ(run({"--write", "--models", "b,nomic-embed-text"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 2U);
  std::vector<std::string> files;
  for (const config::ModelSettings& model : settings.models) {
    for (const std::string& file : files_of(model)) {
      files.push_back(file);
    }
  }
  EXPECT_THAT(files, UnorderedElementsAre(b, blob));
}

TEST_F(SetupCommand, SaysWhichModelItDoesNotKnowAndWritesNothing) {
  tree_.gguf("/srv/models/a.gguf", 1);
  const Outcome outcome = run({"--write", "--models", "nosuch"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("nosuch"));
  EXPECT_THAT(outcome.err, HasSubstr("model_not_found"));
  EXPECT_FALSE(exists(output_));
}

TEST_F(SetupCommand, LeavesABrokenFileOutAndSaysWhy) {
  const std::string good = tree_.gguf("/srv/models/zz-good.gguf", 1);
  tree_.write("/srv/models/aa-cut.gguf", gguf_bytes(2, 256).substr(0, 500));
  const Outcome outcome = run({"--write"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_EQ(settings.models.front().source, good);
  EXPECT_THAT(outcome.out, HasSubstr("cannot be used"));
}

TEST_F(SetupCommand, EscapesHostileNamesForTerminalsAndToml) {
  const std::string steering = "evil\n[[tenant]]\x1b]0;x\x07.gguf";
  tree_.gguf("/srv/models/a/" + steering, 1);
  const std::string path = tree_.gguf("/srv/models/b/x\"'\\ #\xe2\x80\xae\xc3\xa9.gguf", 2);
  const std::string store = "/var/lib/docker/volumes/\x1b[2J\n[[model]]/_data";
  tree_.ollama(store, "m", "latest", 3);
  const Outcome outcome = run({"--write", "--models", path});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const config::Settings settings = written();
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_TRUE(settings.tenants.empty());
  EXPECT_EQ(settings.models.front().source, path);
  EXPECT_EQ(settings.models.front().name.find_first_not_of(
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"),
            std::string::npos);
  EXPECT_THAT(files_of(settings.models.front()), ElementsAre(path));
  const Outcome refused = run({"--write", "--models", tree_.at("/srv/models/a/" + steering)});
  EXPECT_EQ(refused.status, 1);
  for (const std::string& text : {outcome.out, outcome.err, refused.out, refused.err}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\x07'), std::string::npos);
    EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_EQ(text.find("\n[[tenant]]"), std::string::npos);
  }
}

TEST_F(SetupCommand, DoesNotProposeANameThatNoConfigCanHold) {
  tree_.gguf("/srv/models/bad-\xff.gguf", 1);
  const Outcome outcome = run({"--write"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(written().models.empty());
  EXPECT_THAT(outcome.out, HasSubstr("not UTF-8"));
  EXPECT_EQ(outcome.out.find('\xff'), std::string::npos);
}

TEST_F(SetupCommand, KeepsTheFileThatWasThere) {
  tree_.gguf("/srv/models/a.gguf", 1);
  ASSERT_EQ(run({"--write"}).status, 0);
  const std::string first = content(output_);
  EXPECT_THAT(run({"--write"}).out, HasSubstr("holds this already"));
  EXPECT_FALSE(exists(output_ + ".bak-1"));

  std::ofstream(output_) << "# mine\n";
  const Outcome outcome = run({"--write"});
  EXPECT_THAT(outcome.out, HasSubstr(".bak-1"));
  EXPECT_EQ(content(output_ + ".bak-1"), "# mine\n");
  EXPECT_EQ(content(output_), first);
  std::ofstream(output_) << "# mine again\n";
  ASSERT_EQ(run({"--write"}).status, 0);
  EXPECT_EQ(content(output_ + ".bak-1"), "# mine\n");
  EXPECT_EQ(content(output_ + ".bak-2"), "# mine again\n");
}

TEST_F(SetupCommand, WritesNothingUnlessTold) {
  tree_.gguf("/srv/models/a.gguf", 1);
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_FALSE(exists(output_));
  EXPECT_THAT(outcome.out, HasSubstr("Nothing was written"));
}

TEST_F(SetupCommand, GivesItsFindingsAsOneJsonDocument) {
  const std::string path = tree_.gguf("/srv/models/a.gguf", 1);
  const Outcome outcome = run({"--write", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const nlohmann::json body = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(body["models"][0]["source"], path);
  EXPECT_EQ(body["models"][0]["chosen"], true);
  EXPECT_EQ(body["models"][0]["would_hold"], true);
  EXPECT_EQ(body["written"], output_);
  EXPECT_EQ(body["config"], content(output_));
  EXPECT_EQ(body["memory"]["limit"], std::uint64_t{16} << 30);
}

TEST_F(SetupCommand, KnowsTheTranscodersThatShareTheMachine) {
  tree_.process({.pid = 50,
                 .comm = "ffmpeg",
                 .exe = "/usr/lib/jellyfin-ffmpeg/ffmpeg",
                 .args = {"/usr/lib/jellyfin-ffmpeg/ffmpeg", "-i", "x"}});
  tree_.process({.pid = 51,
                 .comm = "frigate.detecto",
                 .exe = "/usr/bin/python3.11",
                 .args = {"frigate.detector.onnx"},
                 .cgroup = fmt::format("/docker/{}", kContainerId)});
  tree_.write("/usr/lib/plexmediaserver/Plex Transcoder", "x");
  ASSERT_EQ(run({"--write"}).status, 0);
  const config::Settings settings = written();
  ASSERT_EQ(settings.tenants.size(), 3U);
  EXPECT_EQ(settings.tenants[0].name, "jellyfin");
  EXPECT_EQ(settings.tenants[0].match_exe, "*/jellyfin-ffmpeg/ffmpeg");
  EXPECT_EQ(settings.tenants[1].name, "plex");
  EXPECT_EQ(settings.tenants[2].name, "frigate");
  EXPECT_THAT(settings.tenants[2].match_cgroup, HasSubstr(kContainerId));
}

/// An agent that says which config it runs with, and answers a reload as told.
FakeAgent::Script agent_with(const std::string& config, int reload_status,
                             const std::string& reload_body) {
  return [=](const SeenRequest& request, Peer& peer) {
    if (request.line.starts_with("GET /v1/status")) {
      peer.respond(200, nlohmann::json{{"config", {{"path", config}}}}.dump());
    } else {
      peer.respond(reload_status, reload_body);
    }
  };
}

TEST_F(SetupCommand, ReloadsTheAgentThatRunsWithTheFile) {
  tree_.gguf("/srv/models/a.gguf", 1);
  FakeAgent agent(agent_with(output_, 200, R"({"models":1})"));
  const Outcome outcome = run({"--write", "--socket", agent.socket()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("being warmed now: andironctl status"));
  const std::vector<SeenRequest> seen = agent.seen(2);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_THAT(seen[1].line, HasSubstr("POST /v1/reload"));
}

TEST_F(SetupCommand, FailsWhereTheAgentDoesNotTakeTheFile) {
  tree_.gguf("/srv/models/a.gguf", 1);
  FakeAgent agent(
      agent_with(output_, 400, R"({"error":{"code":"bad_config","message":"no such key"}})"));
  const Outcome outcome = run({"--write", "--socket", agent.socket()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no such key"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("being warmed")));
}

TEST_F(SetupCommand, LeavesAnAgentWithAnotherFileAlone) {
  tree_.gguf("/srv/models/a.gguf", 1);
  FakeAgent agent(agent_with("/etc/other.toml", 200, "{}"));
  const Outcome outcome = run({"--write", "--socket", agent.socket()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("The running agent uses /etc/other.toml"));
  EXPECT_EQ(agent.seen(1).size(), 1U);
}

/// Runs setup on a terminal, answers its question, and gives what it showed.
std::string answer_on_terminal(const std::vector<std::string>& args, const std::string& answer,
                               int& status) {
  const UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal || ::grantpt(terminal.get()) != 0 || ::unlockpt(terminal.get()) != 0) return {};
  const std::string name = ::ptsname(terminal.get());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const int fd = ::open(name.c_str(), O_RDWR);
    for (int target = 0; target < 3; ++target) {
      ::dup2(fd, target);
    }
    exec_setup(args);
  }
  std::string shown;
  bool answered = false;
  while (true) {
    pollfd wait{terminal.get(), POLLIN, 0};
    std::array<char, 4096> block;
    if (::poll(&wait, 1, 30'000) <= 0) break;
    const ssize_t got = ::read(terminal.get(), block.data(), block.size());
    if (got <= 0) break;  // EIO: the child has gone.
    shown.append(block.data(), static_cast<std::size_t>(got));
    if (!answered && shown.find("[y/N]") != std::string::npos) {
      answered = true;
      if (::write(terminal.get(), answer.data(), answer.size()) < 0) break;
    }
  }
  ::waitpid(child, &status, 0);
  return shown;
}

TEST_F(SetupCommand, AsksOnATerminal) {
  tree_.gguf("/srv/models/a.gguf", 1);
  const std::vector<std::string> args{"--root", tree_.root(), "--output", output_};
  int status = -1;
  EXPECT_THAT(answer_on_terminal(args, "n\n", status), HasSubstr("[y/N]"));
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(exists(output_));
  EXPECT_THAT(answer_on_terminal(args, "y\n", status), HasSubstr("Wrote"));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(written().models.size(), 1U);
}

}  // namespace
}  // namespace andiron::testing
