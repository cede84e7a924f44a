// SPDX-License-Identifier: MIT
#include "agent/core/state_file.hpp"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.hpp"

namespace andiron::core {
namespace {

TEST(StateFile, ComesBackAsItWasSaved) {
  testing::TempDir dir;
  const std::vector<WantedModel> saved{
      {"a", "/m/a.gguf", {"/m/tokenizer"}, true, Hold::locked, Tier::pinned_ram},
      {"/m/b \"q\"\n", "/m/b \"q\"\n", {}, false, std::nullopt}};
  ASSERT_TRUE(save_wanted(dir.path(), saved).has_value());
  const auto loaded = load_wanted(dir.path());
  ASSERT_TRUE(loaded.has_value());
  ASSERT_EQ(loaded->size(), 2u);
  EXPECT_EQ((*loaded)[0].name, "a");
  EXPECT_EQ((*loaded)[0].also, saved[0].also);
  EXPECT_TRUE((*loaded)[0].configured);
  EXPECT_EQ((*loaded)[0].hold, Hold::locked);
  EXPECT_EQ((*loaded)[0].tier, Tier::pinned_ram);
  EXPECT_EQ((*loaded)[1].tier, std::nullopt);
  EXPECT_EQ((*loaded)[1].source, saved[1].source);
  EXPECT_EQ((*loaded)[1].hold, std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(dir / "wanted.json.new"));
}

TEST(StateFile, NoneIsEmptyAndGarbageIsAnError) {
  testing::TempDir dir;
  EXPECT_TRUE(load_wanted(dir.path())->empty());
  for (const char* text : {"", "{", "[]", "{\"wanted\":3}", "\xff\xfe"}) {
    dir.write("wanted.json", text);
    EXPECT_FALSE(load_wanted(dir.path()).has_value()) << text;
  }
  dir.write("wanted.json", R"({"wanted":[3,{"name":"a"},{"name":"b","source":"/b","also":[1]}]})");
  ASSERT_EQ(load_wanted(dir.path())->size(), 1u);
}

TEST(StateFile, WhatWasResidentComesBackAsItWasSaved) {
  testing::TempDir dir;
  EXPECT_TRUE(load_resident(dir.path())->models.empty());
  const ResidentModels saved{"boot",
                             {{"a", UINT64_MAX, std::uint64_t{7} << 40, 4096}, {"b", 1, 2, 3}}};
  ASSERT_TRUE(save_resident(dir.path(), saved).has_value());
  const auto loaded = load_resident(dir.path());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->boot_id, "boot");
  EXPECT_EQ(loaded->models, saved.models);
  for (const char* text : {"", "[]", "{\"models\":{}}", "{\"models\":["}) {
    dir.write("resident.json", text);
    EXPECT_FALSE(load_resident(dir.path()).has_value()) << text;
  }
  dir.write("resident.json",
            R"({"boot_id":7,"models":[3,{"name":1},{"name":"a","files":-1,"bytes":1e99}]})");
  const auto odd = load_resident(dir.path());
  ASSERT_EQ(odd->models.size(), 1u);
  EXPECT_EQ(odd->boot_id, "");
  EXPECT_EQ(odd->models[0], (ResidentModel{"a", 0, 0, 0}));
}

TEST(StateFile, AFullOrMissingFolderIsAnError) {
  testing::TempDir dir;
  EXPECT_FALSE(save_resident((dir / "not-there").string(), {}).has_value());
  EXPECT_FALSE(save_wanted((dir / "not-there").string(), {}).has_value());
}

}  // namespace
}  // namespace andiron::core
