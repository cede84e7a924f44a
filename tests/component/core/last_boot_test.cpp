// SPDX-License-Identifier: MIT
// What LastBoot does as time goes by, with real files; tests/e2e/reboot.py has the agent's side.
#include "agent/core/last_boot.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>

#include "tests/support/manual_clock.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

class LastBootTest : public ::testing::Test {
 protected:
  LastBootTest() : slow_(std::move(*SlowLane::create(clock_))) {}
  ~LastBootTest() override { EXPECT_TRUE(slow_->stop(10s)); }

  ModelRecord& add(const std::string& name, std::uint64_t resident) {
    config::ModelSettings settings;
    settings.name = name;
    ModelRecord& record = world_.models.add(std::move(settings), true);
    record.resolved.emplace();
    record.resolved->source.files.push_back({"/m/" + name, {1, 2, 100, 4, 5}, false});
    record.resolved->source.bytes = 100;
    record.samples = {{resident, ""}};
    return record;
  }
  /// As another boot left it.
  void remember(const ModelRecord& record) {
    const ResidentModels list{"before",
                              {{record.name, fingerprint_of(record.resolved->source), 100, 90}}};
    ASSERT_TRUE(save_resident(dir_.path(), list).has_value());
  }
  void start() {
    boot_ = std::make_unique<LastBoot>(world_, dir_.path(), "now");
    boot_->begin();
    deliver();
  }
  void deliver() {
    pollfd entry{slow_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
    slow_->deliver();
  }
  void advance(std::chrono::minutes by) {
    clock_.advance(by);
    boot_->tick();
  }
  std::vector<std::string> saved() {
    std::vector<std::string> names;
    const auto list = load_resident(dir_.path());
    for (const ResidentModel& model : list->models)
      names.push_back(model.name);
    return names;
  }
  using Names = std::vector<std::string>;

  testing::TempDir dir_;
  testing::ManualClock clock_;
  std::unique_ptr<SlowLane> slow_;
  stream::Engine engine_{{}, clock_};
  World world_{clock_, *slow_, engine_};
  std::unique_ptr<LastBoot> boot_;
};

TEST_F(LastBootTest, IsTooLateAfterHalfAnHour) {
  ModelRecord& record = add("idle", 0);
  remember(record);
  start();
  EXPECT_TRUE(waits_to_be_read_again(record));
  EXPECT_EQ(load_resident(dir_.path())->boot_id, "now");
  advance(LastBoot::kLasts - 1min);
  EXPECT_TRUE(waits_to_be_read_again(record));
  record.job = 7;  // it is being read
  advance(2min);
  EXPECT_EQ(record.before_reboot->state, BeforeReboot::State::waiting);
  record.job = 0;
  advance(0min);
  EXPECT_EQ(record.before_reboot->state, BeforeReboot::State::left);
  EXPECT_FALSE(waits_to_be_read_again(record));
}

TEST_F(LastBootTest, WhatSomebodyElseHasReadIsThere) {
  ModelRecord& record = add("idle", 0);
  remember(record);
  start();
  record.samples[0].resident = 100;
  advance(0min);
  EXPECT_EQ(record.before_reboot->state, BeforeReboot::State::read);
}

TEST_F(LastBootTest, WritesTheListWhenItHasChangedAndNotMoreOften) {
  ModelRecord& record = add("idle", 0);
  start();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "resident.json"));
  advance(6min);  // nothing is resident, and nothing was
  record.samples[0].resident = 100;
  advance(1min);  // its time has not come
  EXPECT_EQ(slow_->queued(), 0u);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "resident.json"));
  advance(5min);
  deliver();
  EXPECT_EQ(saved(), Names{"idle"});
  // Shares come and go; the file stays as it is.
  std::filesystem::remove(dir_ / "resident.json");
  record.samples[0].resident = 80;
  advance(6min);
  EXPECT_EQ(saved(), Names{});
  record.wanted = true;
  advance(6min);
  deliver();
  EXPECT_TRUE(std::filesystem::exists(dir_ / "resident.json"));
  EXPECT_EQ(saved(), Names{});
}

TEST_F(LastBootTest, KeepsWhatStillWaitsForTheNextBoot) {
  ModelRecord& idle = add("idle", 0);
  add("other", 100);
  remember(idle);
  start();
  advance(6min);
  deliver();
  EXPECT_EQ(saved(), (Names{"idle", "other"}));
  idle.before_reboot->leave("of a reason");
  boot_->remember();
  ASSERT_TRUE(boot_->save_now().has_value());
  EXPECT_EQ(saved(), Names{"other"});
}

TEST_F(LastBootTest, AFullDiskKeepsItFromReadingAndNotFromGoingOn) {
  ModelRecord& record = add("idle", 0);
  remember(record);
  std::filesystem::create_directory(dir_ / "resident.json.new");  // nothing can be written there
  start();
  EXPECT_FALSE(waits_to_be_read_again(record));
  EXPECT_EQ(load_resident(dir_.path())->boot_id, "before");
  record.samples[0].resident = 100;
  advance(6min);
  deliver();
  EXPECT_EQ(load_resident(dir_.path())->boot_id, "before");
  std::filesystem::remove(dir_ / "resident.json.new");
  advance(6min);
  deliver();
  EXPECT_EQ(load_resident(dir_.path())->boot_id, "now");
}

TEST_F(LastBootTest, WithoutABootIdThereIsNothing) {
  ModelRecord& record = add("idle", 100);
  remember(record);
  LastBoot boot(world_, dir_.path(), std::nullopt);
  boot.begin();
  bool after_it = false;
  slow_->run([] { return true; }, [&](bool) { after_it = true; });
  while (!after_it)
    deliver();
  clock_.advance(6min);
  boot.tick();
  boot.remember();
  EXPECT_TRUE(boot.save_now().has_value());
  EXPECT_EQ(load_resident(dir_.path())->boot_id, "before");
}

}  // namespace
}  // namespace andiron::core
