// SPDX-License-Identifier: MIT
#include "agent/base/journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>

#include "tests/support/journal_reader.hpp"

namespace andiron::journal {
namespace {

using ::testing::Optional;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(JournalRecord, IsAFieldALine) {
  const std::array<Field, 3> fields{
      {{"MESSAGE", "assistant: warm"}, {"PRIORITY", "6"}, {"ANDIRON_MODEL", "assistant"}}};
  EXPECT_EQ(encode(fields), "MESSAGE=assistant: warm\nPRIORITY=6\nANDIRON_MODEL=assistant\n");
}

TEST(JournalRecord, LeavesOutWhatIsEmpty) {
  const std::array<Field, 2> fields{{{"MESSAGE", "hello"}, {"ANDIRON_MODEL", ""}}};
  EXPECT_EQ(encode(fields), "MESSAGE=hello\n");
  EXPECT_EQ(encode({}), "");
}

TEST(JournalRecord, AValueWithANewlineIsCounted) {
  const std::array<Field, 1> fields{{{"ANDIRON_MODEL", "a\nb"}}};
  EXPECT_EQ(encode(fields), std::string("ANDIRON_MODEL\n\3\0\0\0\0\0\0\0a\nb\n", 26));
}

TEST(JournalRecord, NoValueForgesAField) {
  using namespace std::string_literals;
  for (const std::string& name :
       {"x\nANDIRON_EVENT=model.warmed"s, "x\nPRIORITY\n\1\0\0\0\0\0\0\0"s, "\n"s, "\n\n=\n"s,
        "a=b"s, "\0nul\0"s, "\xff\xfe\n"s, "x\n"s}) {
    const std::array<Field, 2> fields{{{"ANDIRON_MODEL", name}, {"PRIORITY", "4"}}};
    EXPECT_THAT(testing::read_journal_record(encode(fields)),
                Optional(UnorderedElementsAre(Pair("ANDIRON_MODEL", name), Pair("PRIORITY", "4"))));
  }
}

TEST(JournalRecord, IsBounded) {
  const std::string endless(1 << 20, 'x');
  const std::string newlines(1 << 20, '\n');
  const std::array<Field, 3> fields{
      {{"MESSAGE", endless}, {"ANDIRON_MODEL", newlines}, {"ANDIRON_EVENT", endless}}};
  EXPECT_THAT(testing::read_journal_record(encode(fields)),
              Optional(UnorderedElementsAre(Pair("MESSAGE", endless.substr(0, kMaxMessage)),
                                            Pair("ANDIRON_MODEL", newlines.substr(0, kMaxValue)),
                                            Pair("ANDIRON_EVENT", endless.substr(0, kMaxValue)))));
}

TEST(JournalStream, IsKnownByItsInode) {
  struct stat status {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &status), 0);
  const std::string same = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  EXPECT_TRUE(is_stream(same, STDERR_FILENO));
  for (const std::string& other : {std::string(), same + "0", "1" + same, std::string(":"),
                                   std::to_string(status.st_dev), same + "\n"}) {
    EXPECT_FALSE(is_stream(other, STDERR_FILENO)) << other;
  }
  EXPECT_FALSE(is_stream(same, -1));
}

TEST(JournalSocket, RefusesAPathThatIsNone) {
  EXPECT_FALSE(Socket::create(std::string(200, 'x')).has_value());
  const auto nobody = Socket::create("/nobody/listens/here");
  ASSERT_TRUE(nobody.has_value());
  EXPECT_FALSE(nobody->send("MESSAGE=hello\n"));
}

}  // namespace
}  // namespace andiron::journal
