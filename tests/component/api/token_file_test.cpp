// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "agent/api/bearer_token.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSecret = "correct-horse-battery";

class TokenFileTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text, mode_t mode = 0600) {
    const std::string path = dir_.write("token", text).string();
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  /// Why it is not taken. The secret is never in it; the file's name is.
  static std::string refusal(const std::string& path) {
    const auto read = BearerToken::read(path);
    if (read) return "";
    EXPECT_THAT(read.error().message(), HasSubstr("token file '" + path + "'"));
    EXPECT_THAT(read.error().message(), Not(HasSubstr("horse")));
    return read.error().message();
  }

  testing::TempDir dir_;
};

TEST_F(TokenFileTest, IsRead) {
  for (const mode_t mode : {0600u, 0400u}) {
    const auto read = BearerToken::read(write(kSecret + "\n", mode));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_TRUE(read->matches(kSecret));
    EXPECT_EQ(::unlink((dir_ / "token").c_str()), 0);
  }
}

TEST_F(TokenFileTest, IsForItsOwnerAlone) {
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u, 0610u, 0644u}) {
    EXPECT_THAT(refusal(write(kSecret, mode)), HasSubstr("no access")) << mode;
  }
}

TEST_F(TokenFileTest, BelongsToRootOrTheAgent) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  const std::string path = write(kSecret);
  ASSERT_EQ(::chown(path.c_str(), 1234, 0), 0);
  EXPECT_THAT(refusal(path), HasSubstr("belongs to user 1234"));
}

TEST_F(TokenFileTest, IsAFileWithAToken) {
  EXPECT_THAT(refusal((dir_ / "none").string()), HasSubstr("No such file"));
  EXPECT_THAT(refusal(dir_.path().string()), HasSubstr("not a regular file"));
  const std::string fifo = (dir_ / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(refusal(fifo), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(write("")), HasSubstr("it is empty"));
  EXPECT_THAT(refusal(write("horse")), HasSubstr("needs 16 to 512"));
  EXPECT_THAT(refusal(write(std::string(1000, 'h'))), HasSubstr("may have 512"));
  EXPECT_THAT(refusal(write(std::string(1'000'000, 'h'))), HasSubstr("longer than 4096 bytes"));
  EXPECT_THAT(refusal(write("horse horse horse horse")), HasSubstr("one word"));
}

}  // namespace
}  // namespace andiron::api
