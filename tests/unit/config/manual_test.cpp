// SPDX-License-Identifier: MIT
// docs/man/andiron.toml.5 names every key in its table's section, and none that there is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "agent/config/schema.hpp"

namespace andiron::config {
namespace {

/// The text of each section that a table has: "gpu" of `.SH "[[gpu]]"`.
std::map<std::string, std::string> sections() {
  std::ifstream page(ANDIRON_MANUAL);
  std::map<std::string, std::string> found;
  std::string table;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(".SH ")) {
      table.clear();
      for (const char c : line.starts_with(".SH \"[") ? line.substr(5) : std::string()) {
        if ((c >= 'a' && c <= 'z') || c == '_') table += c;
      }
    } else if (!table.empty()) {
      found[table] += line + '\n';
    }
  }
  return found;
}

/// How the page writes a key: "\fBram\fR (default)" of a table, ".B exe" of the table in a value.
std::string written(const std::string& key, bool nested) {
  return nested ? "\n.B " + key + "\n" : "\n\\fB" + key + "\\fR (";
}

TEST(Manual, NamesEveryKey) {
  const auto text = sections();
  ASSERT_GE(known_keys().size(), 30U);
  for (const std::string& path : known_keys()) {
    const std::string table = path.substr(0, path.find('.'));
    const std::string key = path.substr(path.rfind('.') + 1);
    const bool nested = std::count(path.begin(), path.end(), '.') > 1;
    ASSERT_TRUE(text.contains(table)) << "no section for " << path;
    EXPECT_NE(text.at(table).find(written(key, nested)), std::string::npos)
        << path << " is not in docs/man/andiron.toml.5";
  }
}

TEST(Manual, NamesNoKeyThatThereIsNot) {
  const auto keys = known_keys();
  std::size_t seen = 0;
  for (const auto& [table, text] : sections()) {
    for (std::size_t at = 0; (at = text.find("\n\\fB", at)) != std::string::npos; ++seen) {
      at += 4;
      const std::string key = table + "." + text.substr(at, text.find("\\fR", at) - at);
      EXPECT_NE(std::find(keys.begin(), keys.end(), key), keys.end()) << key;
    }
  }
  EXPECT_GE(seen, 30U);
}

}  // namespace
}  // namespace andiron::config
