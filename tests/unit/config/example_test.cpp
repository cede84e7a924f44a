// SPDX-License-Identifier: MIT
// configs/andiron.toml must not rot: it compiles, so does what it has commented out, and it names
// every key.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "agent/config/compile.hpp"
#include "agent/config/schema.hpp"

namespace andiron::config {
namespace {

std::string example() {
  std::ifstream in(ANDIRON_EXAMPLE_CONFIG);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// "#key = ..." and "#[table]" are configuration; "# ..." is prose.
bool is_commented_out(std::string_view line) {
  if (line.substr(0, 1) != "#" || line.size() < 2) return false;
  const std::size_t key_end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", 1);
  if (key_end == std::string_view::npos) return false;
  return line[1] == '[' || (key_end > 1 && line.substr(key_end, 3) == " = ");
}

std::string uncommented() {
  std::istringstream in(example());
  std::string result;
  for (std::string line; std::getline(in, line); result += line + '\n') {
    if (is_commented_out(line)) line.erase(0, 1);
  }
  return result;
}

void expect_good(const Compiled& compiled) {
  for (const Diagnostic& error : compiled.errors)
    ADD_FAILURE() << error.to_string();
}

TEST(Example, Compiles) {
  ASSERT_NE(example(), "");
  const Compiled compiled = compile_file(ANDIRON_EXAMPLE_CONFIG);
  expect_good(compiled);
  EXPECT_FALSE(compiled.settings.agent.allow_roots.empty());
  EXPECT_TRUE(compiled.settings.models.empty());
}

TEST(Example, CompilesWithEverythingTakenIn) {
  const Compiled compiled = compile(uncommented(), "uncommented");
  expect_good(compiled);
  EXPECT_EQ(compiled.settings.gpus.size(), 2u);
  EXPECT_EQ(compiled.settings.models.size(), 2u);
  EXPECT_EQ(compiled.settings.tenants.size(), 1u);
}

void collect_keys(const RawTable& table, const std::string& path, std::set<std::string>& keys) {
  for (const RawEntry& entry : table) {
    const std::string key = path + entry.key;
    keys.insert(key);
    if (const auto* inner = std::get_if<RawTable>(&entry.value.data)) {
      collect_keys(*inner, key + ".", keys);
    } else if (const auto* list = std::get_if<RawArray>(&entry.value.data)) {
      for (const RawValue& value : *list) {
        const auto* element = std::get_if<RawTable>(&value.data);
        if (element != nullptr) collect_keys(*element, key + ".", keys);
      }
    }
  }
}

TEST(Example, NamesEveryKey) {
  const auto parsed = parse_toml(uncommented());
  ASSERT_TRUE(parsed.has_value());
  std::set<std::string> keys;
  collect_keys(*parsed, "", keys);
  ASSERT_GE(known_keys().size(), 30u);
  for (const std::string& key : known_keys())
    EXPECT_TRUE(keys.contains(key)) << key << " is not in configs/andiron.toml";
}

TEST(Example, LinesFitATerminal) {
  std::istringstream in(example());
  for (std::string line; std::getline(in, line);)
    EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace andiron::config
