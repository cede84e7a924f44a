// SPDX-License-Identifier: MIT
#include "agent/lease/lease_index.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "agent/os/file.hpp"
#include "tests/support/model_bytes.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::lease {
namespace {

using nlohmann::json;

class LeaseIndexTest : public ::testing::Test {
 protected:
  void add(const std::string& name, const std::string& bytes, bool companion = false) {
    const std::string path = dir_.write(name, bytes).string();
    request_.files.push_back({name, os::stat_path(path).value().identity, companion});
    request_.copies.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  static json parse(const UniqueFd& index) {
    std::string text(static_cast<std::size_t>(::lseek(index.get(), 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(index.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return json::parse(text);
  }

  testing::TempDir dir_;
  IndexRequest request_{"a \"model\"", 3, {}, {}};
};

TEST_F(LeaseIndexTest, TellsFilesSegmentsAndTensors) {
  const std::string gguf = testing::GgufBytes().tensor("w", 8).tensor("b", 4).bytes();
  add("one.gguf", gguf);
  add("also/tokenizer.json", "{}", true);
  add("empty.bin", "");
  add("two.gguf", testing::GgufBytes().tensor("x", 16).bytes());
  const auto index = make_index(request_);
  ASSERT_TRUE(index) << index.error().message();
  const json said = parse(*index);
  EXPECT_EQ(said["model"], "a \"model\"");
  EXPECT_EQ(said["generation"], 3);
  EXPECT_EQ(said["tier"], "pinned-ram");
  ASSERT_EQ(said["files"].size(), 4U);
  EXPECT_EQ(said["files"][0]["name"], "one.gguf");
  EXPECT_EQ(said["files"][0]["identity"]["ino"], request_.files[0].identity.ino);
  EXPECT_EQ(said["files"][1]["companion"], true);
  EXPECT_EQ(said["segments"][2]["bytes"], 0);
  EXPECT_EQ(said["segments"][3], json({{"file", 3},
                                       {"file_offset", 0},
                                       {"bytes", request_.files[3].identity.size},
                                       {"transport", "file-fd"},
                                       {"fd", 4},
                                       {"offset", 0}}));
  ASSERT_EQ(said["tensors"].size(), 3U);
  EXPECT_EQ(said["tensors"][1]["name"], "b");
  EXPECT_EQ(said["tensors"][1]["segment"], 0);
  EXPECT_EQ(said["tensors"][2]["segment"], 3);
  EXPECT_EQ(said["tensors"][2]["dtype"], "F32");
  EXPECT_EQ(said["tensors"][2]["shape"], json({16}));
  EXPECT_EQ(said["tensors"][2]["bytes"], 64);
  std::uint64_t sum = 0;
  for (const json& file : said["files"])
    sum += file["bytes"].get<std::uint64_t>();
  EXPECT_EQ(said["bytes"], sum);
}

TEST_F(LeaseIndexTest, CannotBeChangedByWhoGetsIt) {
  add("m.bin", "weights");
  const UniqueFd index = std::move(make_index(request_)).value();
  const UniqueFd given = std::move(open_index(index)).value();
  EXPECT_EQ(::fcntl(given.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(::fcntl(given.get(), F_GET_SEALS),
            F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  // Also not by opening it anew, which it may be: it is nobody's file.
  const std::string path = "/proc/self/fd/" + std::to_string(given.get());
  const UniqueFd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (again) {
    EXPECT_EQ(::pwrite(again.get(), "x", 1, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_NE(::ftruncate(again.get(), 0), 0);
  }
}

TEST_F(LeaseIndexTest, IsOpenedWithAnOffsetOfItsOwn) {
  add("m.bin", "weights");
  const UniqueFd index = std::move(make_index(request_)).value();
  const UniqueFd one = std::move(open_index(index)).value();
  const UniqueFd two = std::move(open_index(index)).value();
  ASSERT_EQ(::lseek(one.get(), 5, SEEK_SET), 5);
  EXPECT_EQ(::lseek(two.get(), 0, SEEK_CUR), 0);
}

TEST_F(LeaseIndexTest, IsNotMadeOfAHeaderThatDoesNotParse) {
  add("m.gguf", testing::GgufBytes().tensor("w", 8).bytes().substr(0, 40));
  const auto index = make_index(request_);
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().errc(), Errc::truncated) << index.error().message();
}

}  // namespace
}  // namespace andiron::lease
