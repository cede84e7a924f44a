// SPDX-License-Identifier: MIT
#include "agent/cli/setup_proposal.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "agent/base/units.hpp"
#include "agent/cli/setup_render.hpp"
#include "agent/config/compile.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr std::int64_t kDay = 86'400;

/// A machine without files: each model's files are numbers, and the check answers from them.
class ProposalTest : public ::testing::Test {
 protected:
  ProposalTest() {
    machine_.memory.emplace();
    machine_.memory->limit = 32 * kGiB;
    machine_.memory->available = 30 * kGiB;
    machine_.memory->limited_by = "machine";
    machine_.privileged = true;
  }

  FoundModel& add(const std::string& label, std::uint64_t bytes, std::int64_t days_ago) {
    FoundModel model;
    model.label = label;
    model.store = "/srv/models";
    model.path_source = "/srv/models/" + label + ".gguf";
    FoundFile file;
    file.path = model.path_source;
    file.dev = 1;
    file.ino = ++last_inode_;
    file.bytes = bytes + last_inode_;  // No two the same size: nothing to compare.
    model.bytes = file.bytes;
    model.used = kNow - days_ago * kDay;
    model.files.push_back(file);
    resolved_[model.path_source] = {file};
    machine_.models.push_back(model);
    return machine_.models.back();
  }

  Proposal propose_with(const std::vector<std::string>& wanted = {}) {
    tree_dir_.write("proc/self/mountinfo", mounts_);
    const TreeReader tree(tree_dir_.path().string(), {}, clock_);
    const SourceCheck check = [&](const std::string& source,
                                  const std::vector<std::string>&) -> Result<catalog::Resolved> {
      checked_.push_back(source);
      const auto found = resolved_.find(source);
      if (found == resolved_.end()) return make_error(Errc::source_not_found, source);
      catalog::Resolved answer;
      answer.source = source;
      for (const FoundFile& file : found->second) {
        answer.files.push_back({file.path, {file.dev, file.ino, file.bytes, 0, 0}, false});
        answer.bytes += file.bytes;
      }
      return answer;
    };
    return propose(machine_, tree, wanted, check, WallTime(std::chrono::seconds(kNow)));
  }

  static std::vector<std::string> chosen(const Proposal& proposal) {
    std::vector<std::string> names;
    for (const Candidate& candidate : proposal.candidates) {
      if (candidate.chosen) names.push_back(candidate.model.label);
    }
    return names;
  }

  static const Candidate& find(const Proposal& proposal, const std::string& label) {
    for (const Candidate& candidate : proposal.candidates) {
      if (candidate.model.label == label) return candidate;
    }
    throw std::runtime_error(label);
  }

  SystemClock clock_;
  testing::TempDir tree_dir_;
  std::string mounts_ = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
  Machine machine_;
  std::map<std::string, std::vector<FoundFile>> resolved_;
  std::vector<std::string> checked_;
  std::uint64_t last_inode_ = 0;
};

TEST_F(ProposalTest, KeepsWhatIsLoadedSmallFirstAsFarAsItFits) {
  // Of 32 GiB: half, less 10 % that stay free, is 12.8 GiB.
  add("large", 8 * kGiB, 0).in_use_by = {"ollama (pid 1)"};
  add("small", 2 * kGiB, 5).in_use_by = {"ollama (pid 1)"};
  add("middle", 6 * kGiB, 0).in_use_by = {"llama-server (pid 2)"};
  add("idle", kGiB, 0);
  const Proposal proposal = propose_with();
  EXPECT_THAT(chosen(proposal), ElementsAre("small", "middle"));
  EXPECT_THAT(find(proposal, "large").why, HasSubstr("would not fit beside the others"));
  EXPECT_LE(proposal.chosen_bytes, proposal.capacity);
}

TEST_F(ProposalTest, ElseKeepsTheTwoUsedLastSmallOnesFirst) {
  add("old", kGiB, 30);
  add("today-large", 9 * kGiB, 0);
  add("today-small", 2 * kGiB, 0);
  add("yesterday", kGiB, 1);
  EXPECT_THAT(chosen(propose_with()), ElementsAre("today-small", "today-large"));
}

TEST_F(ProposalTest, NeverSimplyKeepsAllThatIsThere) {
  add("a", kGiB, 0);
  EXPECT_THAT(chosen(propose_with()), ElementsAre("a"));
  add("b", kGiB, 0);
  EXPECT_THAT(chosen(propose_with()), ElementsAre("a"));
  add("c", kGiB, 0);
  EXPECT_THAT(chosen(propose_with()), ElementsAre("a", "b"));
}

TEST_F(ProposalTest, KeepsNothingThatIsLargerThanTheMachine) {
  add("huge", 40 * kGiB, 0);
  const Proposal proposal = propose_with();
  EXPECT_THAT(chosen(proposal), IsEmpty());
  EXPECT_THAT(find(proposal, "huge").why, HasSubstr("larger than this machine"));
  EXPECT_THAT(find(proposal, "huge").cautions, Contains(HasSubstr("cannot stay resident")));
}

TEST_F(ProposalTest, TakesOneOfTwoCopies) {
  add("a", kGiB, 0);
  FoundModel copy = machine_.models.front();
  copy.label = "b";
  machine_.models.push_back(copy);
  const Proposal proposal = propose_with();
  EXPECT_THAT(chosen(proposal), ElementsAre("a"));
  EXPECT_EQ(find(proposal, "b").duplicate_of, "a");
  EXPECT_THAT(find(proposal, "b").why, HasSubstr("the same weights as a"));
}

TEST_F(ProposalTest, DoesWhatItIsAskedToAndSaysWhenThatDoesNotFit) {
  add("large", 20 * kGiB, 90);
  add("small", kGiB, 0);
  const Proposal proposal = propose_with({"large"});
  EXPECT_THAT(chosen(proposal), ElementsAre("large"));
  EXPECT_FALSE(find(proposal, "large").would_hold);
  EXPECT_THAT(find(proposal, "large").cautions, Contains(HasSubstr("does not fit")));
}

TEST_F(ProposalTest, KeepsNothingOnUnifiedMemoryUnlessAskedTo) {
  machine_.unified = {true, "GB10"};
  add("a", kGiB, 0);
  const Proposal proposal = propose_with();
  EXPECT_THAT(chosen(proposal), IsEmpty());
  EXPECT_THAT(proposal.warnings, Contains(HasSubstr("shares the system's memory")));
  EXPECT_THAT(chosen(propose_with({"a"})), ElementsAre("a"));
}

TEST_F(ProposalTest, LeavesModelsOnZfsUnlessAskedTo) {
  mounts_ += "30 22 0:50 / /srv rw - zfs tank/srv rw\n";
  add("a", kGiB, 0);
  const Proposal proposal = propose_with();
  EXPECT_THAT(chosen(proposal), IsEmpty());
  EXPECT_THAT(find(proposal, "a").why, HasSubstr("zfs"));
  const Proposal asked = propose_with({"a"});
  EXPECT_THAT(chosen(asked), ElementsAre("a"));
  EXPECT_THAT(find(asked, "a").cautions, Contains(HasSubstr("ARC")));
}

TEST_F(ProposalTest, WritesANameOnlyWhereItMeansTheVeryFiles) {
  FoundModel& good = add("good", kGiB, 0);
  good.kind = StoreKind::ollama;
  good.source = "ollama:good";
  resolved_["ollama:good"] = good.files;
  FoundModel& shadowed = add("shadowed", kGiB, 0);
  shadowed.kind = StoreKind::ollama;
  shadowed.source = "ollama:shadowed";
  resolved_["ollama:shadowed"] = machine_.models.front().files;
  const Proposal proposal = propose_with({"good", "shadowed"});
  EXPECT_EQ(find(proposal, "good").source, "ollama:good");
  EXPECT_EQ(find(proposal, "shadowed").source, "/srv/models/shadowed.gguf");
}

TEST_F(ProposalTest, DoesNotCheckAThousandModels) {
  for (int i = 0; i < 1000; ++i) {
    add(fmt::format("model-{}", i), kGiB, 0);
  }
  propose_with();
  EXPECT_LE(checked_.size(), 10U);
}

TEST_F(ProposalTest, NamesAreUnique) {
  add("Qwen/x", kGiB, 0);
  add("other/x", kGiB, 1);
  const Proposal proposal = propose_with();
  EXPECT_EQ(find(proposal, "Qwen/x").name, "x");
  EXPECT_EQ(find(proposal, "other/x").name, "x-2");
}

TEST_F(ProposalTest, WarnsOfWhatItCannotHelp) {
  machine_.privileged = false;
  machine_.memory->limited_by = "/user.slice";
  machine_.memory->swap_total = 8 * kGiB;
  machine_.memory->swap_free = kGiB;
  machine_.memlock = 64 * kKiB;
  Runtime ollama;
  ollama.kind = "ollama";
  ollama.process.args = {"ollama", "serve"};
  Runtime server;
  server.kind = "llama-server";
  server.process.args = {"llama-server", "--direct-io"};
  machine_.runtimes = {ollama, server};
  const Proposal proposal = propose_with();
  for (const char* part : {"sudo", "/user.slice", "swapped out", "64 KiB", "OLLAMA_KEEP_ALIVE",
                           "CPU alone", "direct I/O", "No models were found"}) {
    EXPECT_THAT(proposal.warnings, Contains(HasSubstr(part)));
  }
}

TEST_F(ProposalTest, DoesNotWarnOfWhatIsWell) {
  Runtime ollama;
  ollama.kind = "ollama";
  ollama.process.args = {"ollama", "serve"};
  ollama.environment["OLLAMA_KEEP_ALIVE"] = "1h";
  machine_.runtimes = {ollama};
  machine_.gpus = {{"NVIDIA", "RTX", "GPU-1", "0000:01:00.0", {}}};
  add("a", kGiB, 0);
  EXPECT_THAT(propose_with().warnings, IsEmpty());
}

TEST_F(ProposalTest, RendersWhatCompilesWhateverTheNames) {
  const std::string hostile = "x\n]]\n[[model]]\nname = \"\"\"'\\\x01\xff\xe2\x80\xa8# ";
  add(hostile, kGiB, 0);
  resolved_.begin()->second.front().path = hostile;
  machine_.models[0].path_source = "/srv/ok.gguf";
  resolved_["/srv/ok.gguf"] = machine_.models[0].files;
  machine_.models[0].in_use_by = {hostile};
  machine_.models[0].in_use_containers = {hostile, "fine"};
  machine_.stores = {{StoreKind::folder, "/srv/\"q\"", hostile, 1}};
  machine_.gpus = {{"NVIDIA", hostile, "GPU-\"\n", "x", {}}};
  machine_.tenants = {{"ffmpeg", "*/bin/ffmpeg", "", hostile, hostile}};
  machine_.memory->limited_by = hostile;
  Proposal proposal = propose_with();
  const std::string text = render_config(proposal, WallTime(std::chrono::seconds(kNow)));
  const config::Compiled compiled = config::compile(text, "x");
  for (const config::Diagnostic& error : compiled.errors) {
    ADD_FAILURE() << error.to_string();
  }
  ASSERT_THAT(compiled.settings.models, SizeIs(1));
  EXPECT_EQ(compiled.settings.models[0].source, "/srv/ok.gguf");
  EXPECT_THAT(compiled.settings.models[0].preload.containers, ElementsAre("fine"));
  EXPECT_THAT(compiled.settings.tenants, SizeIs(1));
  EXPECT_THAT(compiled.settings.agent.allow_roots, ElementsAre("/srv/\"q\""));
  const std::string report = render_report(proposal);
  EXPECT_EQ(report.find_first_of("\x01\xff"), std::string::npos);
}

TEST(AllowRoots, LeaveOutFoldersInsideOthers) {
  Machine machine;
  machine.stores = {{StoreKind::folder, "/srv/models/a", "", 1},
                    {StoreKind::folder, "/srv/models", "", 1},
                    {StoreKind::ollama, "/srv/models-2", "", 1}};
  std::vector<std::string> paths;
  for (const FoundStore& store : allow_roots_of(machine)) {
    paths.push_back(store.path);
  }
  EXPECT_THAT(paths, ElementsAre("/srv/models", "/srv/models-2"));
}

TEST(Capacity, IsHalfLessHeadroomAndAnEighthAtLeast) {
  EXPECT_EQ(capacity_of(32 * kGiB, 4 * kGiB), 12 * kGiB);
  EXPECT_EQ(capacity_of(4 * kGiB, 2 * kGiB), kGiB / 2);
  EXPECT_EQ(capacity_of(2 * kGiB, 2 * kGiB), kGiB / 4);
  EXPECT_EQ(capacity_of(0, 2 * kGiB), 0U);
}

TEST(ConfigName, HoldsOnlyWhatAConfigTakes) {
  EXPECT_EQ(config_name("llama3.2:3b"), "llama3.2:3b");
  EXPECT_EQ(config_name("org/Name-7B"), "Name-7B");
  EXPECT_EQ(config_name("a b\n\x1b[31m\"c\""), "a-b-31m-c");
  EXPECT_EQ(config_name("--help"), "help");
  EXPECT_EQ(config_name("\xe6\xa8\xa1"), "model");
  EXPECT_EQ(config_name(""), "model");
  EXPECT_EQ(config_name(std::string(500, 'x')).size(), 64U);
}

}  // namespace
}  // namespace andiron::cli
