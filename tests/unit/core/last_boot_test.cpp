// SPDX-License-Identifier: MIT
#include "agent/core/last_boot.hpp"

#include <gtest/gtest.h>

namespace andiron::core {
namespace {

ModelRecord configured(std::uint64_t bytes, std::uint64_t resident) {
  ModelRecord record;
  record.name = "m";
  record.configured = true;
  record.resolved.emplace();
  record.resolved->source.files.push_back({"/m/a", {1, 2, bytes / 2, 4, 5}, false});
  record.resolved->source.files.push_back({"/m/b", {1, 3, bytes - bytes / 2, 4, 5}, false});
  record.resolved->source.bytes = bytes;
  record.samples = {{std::min(resident, bytes / 2), ""},
                    {resident - std::min(resident, bytes / 2), ""}};
  return record;
}

TEST(LastBoot, RemembersWhatNobodyAskedForAndWasThere) {
  const auto whole = worth_remembering(configured(101, 101));
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->name, "m");
  EXPECT_EQ(whole->bytes, 101u);
  EXPECT_EQ(whole->resident, 101u);
  EXPECT_TRUE(worth_remembering(configured(101, 51)));
  EXPECT_FALSE(worth_remembering(configured(101, 50)));  // less than half
  EXPECT_FALSE(worth_remembering(configured(0, 0)));
}

TEST(LastBoot, LeavesOutWhatIsOthersToSay) {
  const auto kept = [](auto change) {
    ModelRecord record = configured(100, 100);
    change(record);
    return worth_remembering(record).has_value();
  };
  EXPECT_TRUE(kept([](ModelRecord&) {}));
  EXPECT_FALSE(kept([](ModelRecord& record) { record.wanted = true; }));  // wanted.json has it
  EXPECT_FALSE(kept([](ModelRecord& record) { record.cancelled = true; }));
  EXPECT_FALSE(kept([](ModelRecord& record) { record.configured = false; }));
  EXPECT_FALSE(kept([](ModelRecord& record) { record.settings.preload.never = true; }));
  EXPECT_FALSE(kept([](ModelRecord& record) { record.settings.tier = Tier::vram; }));
  EXPECT_FALSE(kept([](ModelRecord& record) { record.samples[1].resident.reset(); }));
  EXPECT_FALSE(kept([](ModelRecord& record) { record.resolved.reset(); }));
}

TEST(LastBoot, KnowsFilesByAllThatARebootKeeps) {
  const std::uint64_t before = fingerprint_of(configured(100, 0).resolved->source);
  const auto after = [](auto change) {
    ModelRecord record = configured(100, 0);
    change(record.resolved->source.files[1]);
    return fingerprint_of(record.resolved->source);
  };
  // Many devices get another number with each boot.
  EXPECT_EQ(after([](catalog::ModelFile& file) { file.identity.dev = 99; }), before);
  EXPECT_NE(after([](catalog::ModelFile& file) { file.identity.ino = 99; }), before);
  EXPECT_NE(after([](catalog::ModelFile& file) { file.identity.size = 99; }), before);
  EXPECT_NE(after([](catalog::ModelFile& file) { file.identity.mtime_ns = 99; }), before);
  EXPECT_NE(after([](catalog::ModelFile& file) { file.identity.ctime_ns = 99; }), before);
  EXPECT_NE(after([](catalog::ModelFile& file) { file.path += "/"; }), before);
  ModelRecord fewer = configured(100, 0);
  fewer.resolved->source.files.pop_back();
  EXPECT_NE(fingerprint_of(fewer.resolved->source), before);
}

TEST(LastBoot, OnlyTheSameFilesAreReadAgainAndOnlyOnce) {
  ModelRecord record = configured(100, 0);
  EXPECT_FALSE(waits_to_be_read_again(record));
  record.before_reboot = BeforeReboot{fingerprint_of(record.resolved->source), 100, 100};
  EXPECT_TRUE(waits_to_be_read_again(record));
  record.cancelled = true;
  EXPECT_FALSE(waits_to_be_read_again(record));
  record.cancelled = false;
  record.resolved->source.files[0].identity.mtime_ns += 1;
  EXPECT_FALSE(waits_to_be_read_again(record));
  record = configured(100, 0);
  record.before_reboot = BeforeReboot{fingerprint_of(record.resolved->source), 100, 100};
  record.before_reboot->state = BeforeReboot::State::read;
  EXPECT_FALSE(waits_to_be_read_again(record));
  record.before_reboot->leave("of a reason");
  EXPECT_FALSE(waits_to_be_read_again(record));
}

}  // namespace
}  // namespace andiron::core
