// SPDX-License-Identifier: MIT
#include "agent/policy/plan.hpp"

#include <gtest/gtest.h>

namespace andiron::policy {
namespace {

using std::chrono::minutes;

const SteadyTime kNow{std::chrono::hours(1000)};

ModelFacts model(std::string name, std::uint64_t key, std::uint64_t bytes) {
  ModelFacts facts;
  facts.name = std::move(name);
  facts.wanted = true;
  facts.files = {{key, bytes}};
  return facts;
}

ModelFacts held(ModelFacts facts, Hold hold) {
  facts.held = hold;
  facts.state = ModelState::warm;
  facts.ever_warmed = true;
  return facts;
}

Facts machine(std::uint64_t available, std::uint64_t budget) {
  Facts facts;
  facts.memory_available = available;
  facts.budget = budget;
  facts.headroom = 2 * kGiB;
  return facts;
}

std::string brief(const Plan& plan) {
  std::string text;
  for (const Step& step : plan.steps) {
    if (!text.empty()) text += "; ";
    text += std::string(to_string(step.kind)) + " " + step.model;
    if (step.kind == Step::Kind::warm || step.kind == Step::Kind::demote) {
      text += " " + std::string(to_string(step.hold));
    }
    if (step.kind == Step::Kind::refuse) text += " " + std::string(error_name(step.code));
  }
  return text;
}

TEST(Plan, WarmsWhatIsWantedAndLeavesTheRest) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {model("a", 1, kGiB), model("b", 2, kGiB)};
  facts.models[1].wanted = false;
  EXPECT_EQ(brief(plan(facts, kNow)), "warm a mapped");
}

TEST(Plan, LeavesAWarmModelAlone) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {held(model("a", 1, kGiB), Hold::mapped)};
  EXPECT_EQ(brief(plan(facts, kNow)), "");
}

TEST(Plan, BringsEvictedPagesBackAfterTheBackOff) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {held(model("a", 1, kGiB), Hold::mapped)};
  facts.models[0].state = ModelState::partial;
  facts.models[0].retry_after = kNow + minutes(1);
  EXPECT_EQ(brief(plan(facts, kNow)), "wait a");
  EXPECT_EQ(brief(plan(facts, kNow + minutes(2))), "warm a mapped");
  facts.models[0].rewarm = false;
  EXPECT_EQ(brief(plan(facts, kNow + minutes(2))), "");
}

TEST(Plan, WhatCannotBeLockedNowIsNotTriedAtOnce) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {held(model("a", 1, kGiB), Hold::mapped)};
  facts.models[0].wanted_hold = Hold::locked;
  facts.models[0].lock_limit = true;
  facts.models[0].retry_after = kNow + minutes(1);
  const Plan now = plan(facts, kNow);
  EXPECT_EQ(brief(now), "wait a");
  EXPECT_NE(now.steps.at(0).reason.find("locked"), std::string::npos) << now.steps[0].reason;
  EXPECT_EQ(brief(plan(facts, kNow + minutes(2))), "warm a locked");
}

TEST(Plan, WhileAnotherAgentHoldsThisOneCachesOnly) {
  Facts facts = machine(32 * kGiB, kGiB);
  facts.models = {held(model("a", 1, 5 * kGiB), Hold::locked), model("b", 2, 5 * kGiB),
                  held(model("c", 3, kGiB), Hold::cached)};
  facts.models[0].wanted_hold = Hold::locked;
  facts.models[0].state = ModelState::partial;
  facts.another_holds = true;
  EXPECT_EQ(brief(plan(facts, kNow)), "demote a cached; warm b cached");
  facts.models[0].busy = true;  // what its job brings goes, too
  EXPECT_EQ(brief(plan(facts, kNow)), "demote a cached; warm b cached");
  facts.another_holds = false;
  facts.budget = 16 * kGiB;
  facts.models[0] = held(model("a", 1, 5 * kGiB), Hold::cached);
  facts.models[0].wanted_hold = Hold::locked;
  EXPECT_EQ(brief(plan(facts, kNow)), "warm a locked; warm b mapped; warm c mapped");
}

TEST(Plan, HigherPriorityGetsTheBudgetAndLowerOneYields) {
  Facts facts = machine(32 * kGiB, 8 * kGiB);
  facts.models = {held(model("low", 1, 5 * kGiB), Hold::mapped), model("high", 2, 5 * kGiB)};
  facts.models[1].priority = Priority::interactive;
  EXPECT_EQ(brief(plan(facts, kNow)), "demote low cached; warm high mapped");
}

TEST(Plan, AmongEqualsWhatIsHeldStays) {
  Facts facts = machine(32 * kGiB, 8 * kGiB);
  facts.models = {model("new", 2, 5 * kGiB), held(model("old", 1, 5 * kGiB), Hold::mapped)};
  EXPECT_EQ(brief(plan(facts, kNow)), "refuse new no_budget");
}

TEST(Plan, WhatClientsStillUseIsNoRoom) {
  Facts facts = machine(32 * kGiB, 8 * kGiB);
  facts.models = {model("new", 2, 5 * kGiB)};
  facts.draining = 4 * kGiB;
  const Plan refused = plan(facts, kNow);
  EXPECT_EQ(brief(refused), "refuse new no_budget");
  EXPECT_NE(refused.steps[0].reason.find("4.0 GiB more were given up"), std::string::npos)
      << refused.steps[0].reason;
  facts.draining = 3 * kGiB;
  EXPECT_EQ(brief(plan(facts, kNow)), "warm new mapped");
}

TEST(Plan, BackgroundWorkNeverEvicts) {
  Facts facts = machine(32 * kGiB, 8 * kGiB);
  facts.models = {model("batch", 2, 5 * kGiB), held(model("voice", 1, 5 * kGiB), Hold::locked)};
  facts.models[0].priority = Priority::background;
  facts.models[0].requested = true;
  facts.models[1].wanted_hold = Hold::locked;
  EXPECT_EQ(brief(plan(facts, kNow)), "refuse batch no_budget");
}

TEST(Plan, SaysWhatWouldHaveToGo) {
  Facts facts = machine(64 * kGiB, 10 * kGiB);
  facts.models = {held(model("large", 1, 5 * kGiB), Hold::mapped),
                  held(model("twin", 1, 5 * kGiB), Hold::mapped),
                  held(model("small", 2, 3 * kGiB), Hold::mapped), model("new", 3, 4 * kGiB)};
  const auto reason = [&] { return plan(facts, kNow).steps.back().reason; };
  EXPECT_TRUE(reason().ends_with("already; for it to fit, drop small (3.0 GiB)")) << reason();
  facts.models[3].files = {{3, 9 * kGiB}};
  EXPECT_TRUE(reason().ends_with("fit, drop small (3.0 GiB), large (5.0 GiB)")) << reason();
  facts.models[3].files = {{3, 11 * kGiB}};
  EXPECT_TRUE(reason().ends_with("; 10 GiB is all that may be held")) << reason();
  facts.budget = 64 * kGiB;
  facts.memory_available = 13 * kGiB;
  facts.models[3].files = {{3, 4 * kGiB}};
  EXPECT_TRUE(reason().ends_with("memory free; for it to fit, drop small (3.0 GiB)")) << reason();
  // The budget is nothing to what takes none of it.
  facts.models[3].wanted_hold = Hold::cached;
  facts.budget = 8 * kGiB;
  facts.models[3].files = {{3, 9 * kGiB}};
  EXPECT_TRUE(reason().ends_with("fit, drop small (3.0 GiB), large (5.0 GiB)")) << reason();
}

TEST(Plan, SharedFilesCountOnce) {
  Facts facts = machine(32 * kGiB, 6 * kGiB);
  facts.models = {model("a", 1, 5 * kGiB), model("b", 1, 5 * kGiB)};
  facts.models[1].files.push_back({2, kGiB});
  EXPECT_EQ(brief(plan(facts, kNow)), "warm a mapped; warm b mapped");
}

TEST(Plan, NeverLeavesLessThanTheHeadroom) {
  Facts facts = machine(6 * kGiB, 8 * kGiB);
  facts.models = {model("a", 1, 5 * kGiB)};
  EXPECT_EQ(brief(plan(facts, kNow)), "refuse a no_headroom");
  facts.models[0].wanted_hold = Hold::cached;
  EXPECT_EQ(brief(plan(facts, kNow)), "refuse a no_headroom");
  facts.memory_available = 7 * kGiB;
  EXPECT_EQ(brief(plan(facts, kNow)), "warm a cached");
}

TEST(Plan, LockedBytesAreNotSubtractedTwice) {
  Facts facts = machine(3 * kGiB, 8 * kGiB);  // 5 GiB locked already, so available is short of it
  facts.locked = 5 * kGiB;
  facts.models = {held(model("a", 1, 5 * kGiB), Hold::locked)};
  facts.models[0].wanted_hold = Hold::locked;
  EXPECT_EQ(brief(plan(facts, kNow)), "");
  facts.memory_available = kGiB;  // and now the machine shrank, or somebody grew
  EXPECT_EQ(brief(plan(facts, kNow)), "demote a cached");
}

TEST(Plan, CachedModelsTakeNoBudget) {
  Facts facts = machine(32 * kGiB, 0);
  facts.models = {model("a", 1, 5 * kGiB)};
  facts.models[0].wanted_hold = Hold::cached;
  EXPECT_EQ(brief(plan(facts, kNow)), "warm a cached");
}

TEST(Plan, AFailingModelPushesNobodyOut) {
  Facts facts = machine(32 * kGiB, 8 * kGiB);
  facts.models = {model("broken", 2, 5 * kGiB), held(model("good", 1, 5 * kGiB), Hold::mapped)};
  facts.models[0].priority = Priority::critical;
  facts.models[0].retry_after = kNow + minutes(1);
  EXPECT_EQ(brief(plan(facts, kNow)), "wait broken");
}

TEST(Plan, KeepAliveEnds) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {held(model("a", 1, kGiB), Hold::mapped)};
  facts.models[0].keep_alive = {config::KeepAlive::Kind::fixed, minutes(30)};
  facts.models[0].last_used = kNow - minutes(29);
  EXPECT_EQ(brief(plan(facts, kNow)), "");
  facts.models[0].last_used = kNow - minutes(31);
  EXPECT_EQ(brief(plan(facts, kNow)), "release a");
}

TEST(Plan, PressurePutsOffAllButRequests) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.under_pressure = true;
  facts.models = {model("a", 1, kGiB), model("b", 2, kGiB)};
  facts.models[1].requested = true;
  EXPECT_EQ(brief(plan(facts, kNow)), "wait a; warm b mapped");
}

TEST(Plan, UnifiedMemoryWarmsOnlyWhatIsAskedFor) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.unified_memory = true;
  facts.models = {model("a", 1, kGiB), model("b", 2, kGiB)};
  facts.models[1].wanted_hold = Hold::mapped;
  EXPECT_EQ(brief(plan(facts, kNow)), "refuse a unavailable; warm b mapped");
}

TEST(Plan, OtherTiersAreNotHadByWarmingThisOne) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {model("a", 1, kGiB)};
  facts.models[0].tier = Tier::vram;
  EXPECT_EQ(brief(plan(facts, kNow)), "refuse a unavailable");
}

TEST(Plan, AHoldChangesBothWays) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {held(model("up", 1, kGiB), Hold::mapped),
                  held(model("down", 2, kGiB), Hold::locked)};
  facts.models[0].wanted_hold = Hold::locked;
  facts.models[1].wanted_hold = Hold::cached;
  EXPECT_EQ(brief(plan(facts, kNow)), "demote down cached; warm up locked");
}

TEST(Plan, WhatIsDroppedWhileItsJobEndsIsReleasedByThatEnd) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  facts.models = {held(model("a", 1, kGiB), Hold::mapped)};
  facts.models[0].wanted = false;
  EXPECT_EQ(brief(plan(facts, kNow)), "release a");
  facts.models[0].busy = true;
  EXPECT_EQ(brief(plan(facts, kNow)), "");
}

TEST(Plan, IsTheSameForTheSameFacts) {
  Facts facts = machine(16 * kGiB, 8 * kGiB);
  for (int i = 0; i < 1000; ++i) {
    facts.models.push_back(
        model("m" + std::to_string(i), static_cast<std::uint64_t>(i), kMiB * 64));
  }
  EXPECT_EQ(brief(plan(facts, kNow)), brief(plan(facts, kNow)));
}

TEST(AutoHeadroom, IsTheLargerOf2GiBAnd10PercentButAtMostHalf) {
  EXPECT_EQ(auto_headroom(64 * kGiB), 64 * kGiB / 10);
  EXPECT_EQ(auto_headroom(16 * kGiB), 2 * kGiB);
  EXPECT_EQ(auto_headroom(2 * kGiB), kGiB);
}

ModelFacts before_reboot(std::string name, std::uint64_t key, std::uint64_t bytes) {
  ModelFacts facts = model(std::move(name), key, bytes);
  facts.wanted = false;
  facts.to_read_again = true;
  return facts;
}

TEST(Plan, ReadsAgainWhatARebootTookWhenThereIsNothingElseToDo) {
  Facts facts = machine(32 * kGiB, 8 * kGiB);
  facts.models = {before_reboot("idle", 1, kGiB), model("boot", 2, kGiB),
                  before_reboot("voice", 3, kGiB)};
  facts.models[2].priority = Priority::interactive;
  EXPECT_EQ(brief(plan(facts, kNow)), "warm boot mapped");
  facts.models[1].busy = true;
  EXPECT_EQ(brief(plan(facts, kNow)), "");
  facts.models[1].busy = false;
  facts.models[1].retry_after = kNow + minutes(1);
  EXPECT_EQ(brief(plan(facts, kNow)), "wait boot");
  facts.models[1] = held(model("boot", 2, kGiB), Hold::mapped);
  const Plan now = plan(facts, kNow);
  EXPECT_EQ(brief(now), "read-again voice");
  EXPECT_NE(now.steps.at(0).reason.find("before the reboot"), std::string::npos);
  facts.models[2].busy = true;  // one at a time
  EXPECT_EQ(brief(plan(facts, kNow)), "");
  facts.models[2] = before_reboot("voice", 3, kGiB);
  facts.models[2].state = ModelState::warm;  // somebody has read it
  EXPECT_EQ(brief(plan(facts, kNow)), "read-again idle");
}

TEST(Plan, WhatCannotBeHadKeepsNothingFromBeingReadAgain) {
  Facts facts = machine(32 * kGiB, kGiB);
  facts.models = {model("missing", 1, 0), model("broken", 2, 0), model("big", 3, 2 * kGiB),
                  held(model("unlocked", 4, kGiB), Hold::mapped), before_reboot("idle", 5, kGiB)};
  facts.models[0].files.clear();
  facts.models[0].state = ModelState::missing;
  facts.models[1].files.clear();
  facts.models[1].state = ModelState::error;
  facts.models[3].wanted_hold = Hold::locked;
  facts.models[3].lock_limit = true;
  facts.models[3].retry_after = kNow + minutes(1);
  EXPECT_EQ(brief(plan(facts, kNow)), "wait unlocked; refuse big no_budget; read-again idle");
  facts.models[0].state = ModelState::cold;  // not resolved yet: it may be had after all
  EXPECT_EQ(brief(plan(facts, kNow)), "wait unlocked; refuse big no_budget");
}

TEST(Plan, ReadsAgainOnlyIntoMemoryThatIsLeft) {
  Facts facts = machine(10 * kGiB, 4 * kGiB);  // and 2 GiB of headroom
  facts.models = {held(model("held", 1, 4 * kGiB), Hold::mapped),
                  before_reboot("large", 2, 5 * kGiB), before_reboot("small", 3, 3 * kGiB)};
  EXPECT_EQ(brief(plan(facts, kNow)), "read-again small");
  facts.models[1].to_read_again = false;
  facts.models[1].was_read_again = true;  // what is there by now counts
  EXPECT_EQ(brief(plan(facts, kNow)), "");
  facts.memory_available = 20 * kGiB;
  EXPECT_EQ(brief(plan(facts, kNow)), "read-again small");
  facts.under_pressure = true;
  EXPECT_EQ(brief(plan(facts, kNow)), "");
  facts.under_pressure = false;
  facts.unified_memory = true;
  EXPECT_EQ(brief(plan(facts, kNow)), "");
}

}  // namespace
}  // namespace andiron::policy
