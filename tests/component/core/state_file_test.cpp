// SPDX-License-Identifier: MIT
#include "agent/core/state_file.hpp"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.hpp"

namespace andiron::core {
namespace {

TEST(StateFile, ComesBackAsItWasSaved) {
  testing::TempDir dir;
  const std::vector<WantedModel> saved{{"a", "/m/a.gguf", {"/m/tokenizer"}, true, Hold::locked},
                                       {"/m/b \"q\"\n", "/m/b \"q\"\n", {}, false, std::nullopt}};
  ASSERT_TRUE(save_wanted(dir.path(), saved).has_value());
  const auto loaded = load_wanted(dir.path());
  ASSERT_TRUE(loaded.has_value());
  ASSERT_EQ(loaded->size(), 2u);
  EXPECT_EQ((*loaded)[0].name, "a");
  EXPECT_EQ((*loaded)[0].also, saved[0].also);
  EXPECT_TRUE((*loaded)[0].configured);
  EXPECT_EQ((*loaded)[0].hold, Hold::locked);
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

TEST(StateFile, AFullOrMissingFolderIsAnError) {
  testing::TempDir dir;
  EXPECT_FALSE(save_wanted((dir / "not-there").string(), {}).has_value());
}

}  // namespace
}  // namespace andiron::core
