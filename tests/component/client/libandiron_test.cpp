// SPDX-License-Identifier: MIT
// What needs no agent: arguments, and where there is none.
#include <andiron.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace {

using ::testing::HasSubstr;
using ::testing::StrEq;

andiron_options options_for(const char* model) {
  andiron_options options = ANDIRON_OPTIONS_INIT;
  options.model = model;
  options.socket = "/nonexistent/lease.sock";
  return options;
}

/// The code that opening ends with.
std::string code_of(const andiron_options* options) {
  andiron_error error;
  std::memset(&error, 'x', sizeof(error));
  auto* lease = reinterpret_cast<andiron_lease*>(&error);
  EXPECT_EQ(andiron_lease_open(options, &lease, &error), -1);
  EXPECT_EQ(lease, nullptr);
  EXPECT_GT(std::strlen(error.message), 0u);
  return error.code;
}

TEST(Libandiron, NoAgentIsUnavailable) {
  const andiron_options options = options_for("m");
  EXPECT_EQ(code_of(&options), "unavailable");
  andiron_lease* lease = nullptr;
  EXPECT_EQ(andiron_lease_open(&options, &lease, nullptr), -1) << "without a place for the error";
}

TEST(Libandiron, TheEnvironmentNamesTheSocket) {
  andiron_options options = options_for("m");
  options.socket = nullptr;
  andiron::testing::TempDir folder;
  const std::string path = folder.write("f", "");
  ::setenv("ANDIRON_LEASE_SOCKET", (path + "/lease.sock").c_str(), 1);
  andiron_lease* lease = nullptr;
  andiron_error error;
  EXPECT_EQ(andiron_lease_open(&options, &lease, &error), -1);
  EXPECT_THAT(error.message, HasSubstr("Not a directory"));
  ::unsetenv("ANDIRON_LEASE_SOCKET");
}

TEST(Libandiron, OptionsAreChecked) {
  EXPECT_EQ(code_of(nullptr), "bad_request");
  andiron_options options = options_for("m");
  options.size = 8;
  EXPECT_EQ(code_of(&options), "bad_request");
  options = options_for("m");
  options.source_fd = STDIN_FILENO;
  EXPECT_EQ(code_of(&options), "bad_request") << "both";
  options = options_for(nullptr);
  EXPECT_EQ(code_of(&options), "bad_request") << "neither";
  options = options_for("");
  EXPECT_EQ(code_of(&options), "bad_request");
  options = options_for("m");
  options.wait_ms = 0xFFFFFFFFU;
  EXPECT_EQ(code_of(&options), "bad_request");
  const std::string path(200, 'p');
  options = options_for("m");
  options.socket = path.c_str();
  EXPECT_EQ(code_of(&options), "bad_request");
  EXPECT_EQ(andiron_lease_open(&options, nullptr, nullptr), -1);
}

TEST(Libandiron, OptionsOfALaterVersionMayBeThereButNotUsed) {
  struct Later {
    andiron_options known;
    std::size_t more;
  } later{options_for("m"), 0};
  later.known.size = sizeof(later);
  EXPECT_EQ(code_of(&later.known), "unavailable");
  later.more = 1;
  EXPECT_EQ(code_of(&later.known), "bad_request");
}

TEST(Libandiron, AMessageThatIsTooLongIsCutBetweenCharacters) {
  std::string path = "/";
  while (path.size() < 104)
    path += "\xC3\xA9";
  andiron_options options = options_for("m");
  options.socket = path.c_str();
  andiron_lease* lease = nullptr;
  andiron_error error;
  EXPECT_EQ(andiron_lease_open(&options, &lease, &error), -1);
  EXPECT_LT(std::strlen(error.message), sizeof(error.message));
  andiron_lease_close(nullptr);
  EXPECT_THAT(andiron_version(), StrEq(ANDIRON_VERSION));
}

}  // namespace
