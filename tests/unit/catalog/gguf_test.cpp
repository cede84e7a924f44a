// SPDX-License-Identifier: MIT
#include "agent/catalog/gguf.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "tests/support/model_bytes.hpp"

namespace andiron::catalog {
namespace {

using testing::ByteString;
using testing::GgufBytes;

constexpr std::uint32_t kUint32 = 4;
constexpr std::uint32_t kFloat32 = 6;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

Result<GgufHeader> parse(const std::string& bytes, bool keep = true) {
  HeaderReader reader = HeaderReader::over_bytes(std::as_bytes(std::span(bytes)));
  return parse_gguf(reader, keep);
}

std::string_view error_of(const std::string& bytes) {
  const auto result = parse(bytes);
  return result ? "none" : error_name(result.error().errc());
}

/// A header of version 3 with its counts, to go on from.
ByteString start(std::uint64_t tensors, std::uint64_t pairs) {
  return ByteString().raw("GGUF").u32(3).u64(tensors).u64(pairs);
}

/// A file with one tensor of this type and shape, and room enough behind it.
std::string one_tensor(std::uint32_t type, const std::vector<std::uint64_t>& shape,
                       std::uint64_t offset = 0, std::uint64_t room = 1 << 16) {
  ByteString out = start(1, 0).text("t").u32(shape.size());
  for (const std::uint64_t extent : shape)
    out.u64(extent);
  return out.u32(type).u64(offset).zeros_to(room).bytes();
}

TEST(Gguf, ReadsTensorsAndMetadata) {
  GgufBytes file;
  file.string("general.architecture", "llama").u32("llama.context_length", 8192);
  file.u32("llama.block_count", 28).u32("llama.attention.head_count", 24);
  file.u16("split.no", 1).u16("split.count", 3);
  file.tensor("a.weight", 10).tensor("b.weight", 3);
  const std::string bytes = file.bytes();
  const auto header = parse(bytes);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->version, 3U);
  EXPECT_EQ(header->alignment, 32U);
  EXPECT_EQ(header->tensor_count, 2U);
  EXPECT_EQ(header->metadata.architecture, "llama");
  EXPECT_EQ(header->metadata.context_length, 8192U);
  EXPECT_EQ(header->metadata.block_count, 28U);
  EXPECT_EQ(header->metadata.head_count, 24U);
  EXPECT_EQ(header->split_no, 1U);
  EXPECT_EQ(header->split_count, 3U);
  ASSERT_EQ(header->tensors.size(), 2U);
  const Tensor& second = header->tensors[1];
  EXPECT_EQ(second.name, "b.weight");
  EXPECT_EQ(second.dtype, "F32");
  EXPECT_EQ(second.shape, std::vector<std::uint64_t>{3});
  EXPECT_EQ(second.bytes, 12U);
  EXPECT_EQ(second.offset + second.bytes, bytes.size());
  EXPECT_EQ(header->tensors[0].offset, header->data_offset);
  EXPECT_EQ(second.offset, header->data_offset + 64);  // 40 bytes, aligned to 32
}

TEST(Gguf, KeepsNoTensorsUnlessAsked) {
  const auto header = parse(GgufBytes().tensor("a", 8).bytes(), false);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->tensor_count, 1U);
  EXPECT_TRUE(header->tensors.empty());
}

TEST(Gguf, ReadsVersion2AndAnotherAlignment) {
  GgufBytes file;
  file.version = 2;
  file.alignment = 256;
  file.u32("general.alignment", 256).tensor("a", 8).tensor("b", 8);
  const auto header = parse(file.bytes());
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->version, 2U);
  EXPECT_EQ(header->tensors[1].offset % 256, 0U);
  EXPECT_EQ(header->tensors[1].offset, header->data_offset + 256);
}

TEST(Gguf, TakesTheLargestOfHeadCountsThatDiffer) {
  const auto header = parse(start(0, 2)
                                .text("general.architecture")
                                .u32(kString)
                                .text("x")
                                .text("x.attention.head_count_kv")
                                .u32(kArray)
                                .u32(kUint32)
                                .u64(3)
                                .u32(2)
                                .u32(8)
                                .u32(4)
                                .bytes());
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->metadata.head_count_kv, 8U);
}

TEST(Gguf, RefusesWhatIsNotIt) {
  EXPECT_EQ(error_of("GGML0000000000000000000000000000"), "bad_format");
  EXPECT_EQ(error_of(""), "truncated");
  EXPECT_EQ(error_of("GGUF"), "truncated");
  EXPECT_EQ(error_of(ByteString().raw("GGUF").u32(1).u64(0).u64(0).bytes()), "bad_format");
  EXPECT_EQ(error_of(ByteString().raw("GGUF").u32(4).u64(0).u64(0).bytes()), "bad_format");
}

TEST(Gguf, SaysThatItIsBigEndian) {
  const auto header = parse(ByteString().raw("GGUF").u8(0).u8(0).u8(0).u8(3).u64(0).u64(0).bytes());
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().errc(), Errc::bad_format);
  EXPECT_NE(header.error().message().find("big-endian"), std::string::npos);
}

TEST(Gguf, ChecksCountsBeforeItAllocates) {
  const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(error_of(start(huge, 0).bytes()), "too_large");
  EXPECT_EQ(error_of(start(kMaxTensors, 0).bytes()), "truncated");
  EXPECT_EQ(error_of(start(0, huge).bytes()), "truncated");
  EXPECT_EQ(error_of(start(0, 1).u64(huge).zeros_to(200).bytes()), "truncated");  // a key
  EXPECT_EQ(error_of(start(0, 1).text("k").u32(kString).u64(huge).bytes()), "truncated");
  EXPECT_EQ(error_of(start(0, 1).text("k").u32(kArray).u32(kUint32).u64(huge / 4 + 1).bytes()),
            "truncated");
  EXPECT_EQ(error_of(start(0, 1).text("k").u32(kArray).u32(kString).u64(huge).bytes()),
            "truncated");
  EXPECT_EQ(error_of(start(1, 0).u64(huge).zeros_to(200).bytes()), "truncated");  // a tensor's name
}

TEST(Gguf, StopsAtTheBoundOfAHeader) {
  // An array of 80 MiB is really there (as far as the reader can tell), and is more than a header.
  const std::string prefix = start(0, 1).text("k").u32(kArray).u32(0).u64(80 * kMiB).bytes();
  std::string bytes = prefix;
  bytes.resize(prefix.size() + 80 * kMiB);
  EXPECT_EQ(error_of(bytes), "too_large");
}

TEST(Gguf, BoundsNestedArrays) {
  const auto nested = [](int depth) {
    ByteString out = start(0, 1).text("k").u32(kArray);
    for (int i = 1; i < depth; ++i)
      out.u32(kArray).u64(1);
    return out.u32(kUint32).u64(1).u32(7).bytes();
  };
  EXPECT_EQ(error_of(nested(8)), "none");
  EXPECT_EQ(error_of(nested(9)), "bad_format");
  EXPECT_EQ(error_of(nested(100000)), "bad_format");
}

TEST(Gguf, RefusesOddMetadata) {
  EXPECT_EQ(error_of(start(0, 1).text("k").u32(13).zeros_to(200).bytes()), "bad_format");
  EXPECT_EQ(error_of(start(0, 1).text("").u32(kUint32).u32(0).zeros_to(200).bytes()), "bad_format");
  for (const std::uint32_t alignment : {0U, 1U, 4U, 24U, 33U}) {
    EXPECT_EQ(error_of(GgufBytes().u32("general.alignment", alignment).bytes()), "bad_format")
        << alignment;
  }
  EXPECT_EQ(error_of(start(0, 1).text("general.alignment").u32(kFloat32).u32(64).bytes()),
            "bad_format");
}

TEST(Gguf, KnowsBlockSizes) {
  // Bytes of 512 elements, from ggml's block definitions.
  const std::pair<std::uint32_t, std::uint64_t> expected[] = {
      {0, 2048},  {1, 1024}, {2, 288},   {3, 320},   {6, 352},   {7, 384},   {8, 544},
      {9, 576},   {10, 168}, {11, 220},  {12, 288},  {13, 352},  {14, 420},  {15, 584},
      {16, 132},  {17, 148}, {18, 196},  {19, 100},  {20, 288},  {21, 220},  {22, 164},
      {23, 272},  {24, 512}, {25, 1024}, {26, 2048}, {27, 4096}, {28, 4096}, {29, 112},
      {30, 1024}, {34, 108}, {35, 132},  {39, 272},  {40, 288},  {41, 72},   {42, 144}};
  for (const auto& [type, bytes] : expected) {
    const auto header = parse(one_tensor(type, {256, 2}));
    ASSERT_TRUE(header) << type << ": " << header.error().message();
    EXPECT_EQ(header->tensors[0].bytes, bytes) << type;
  }
  for (const std::uint32_t type : {4U, 5U, 31U, 36U, 38U, 43U, 1000U})
    EXPECT_EQ(error_of(one_tensor(type, {256})), "bad_format") << type;
}

TEST(Gguf, ChecksShapes) {
  EXPECT_EQ(error_of(one_tensor(2, {33})), "bad_format");  // no whole block
  EXPECT_EQ(error_of(one_tensor(0, {})), "none");          // a scalar
  EXPECT_EQ(error_of(one_tensor(0, {1, 2, 3, 4, 5})), "none");
  EXPECT_EQ(error_of(one_tensor(0, {1, 1, 1, 1, 1, 1, 1, 1, 1})), "bad_format");
  EXPECT_EQ(error_of(one_tensor(0, {std::uint64_t{1} << 62})), "bad_format");
  EXPECT_EQ(error_of(one_tensor(0, {1, std::uint64_t{1} << 32, std::uint64_t{1} << 32})),
            "bad_format");
  EXPECT_EQ(error_of(one_tensor(8, {32, std::uint64_t{1} << 60})), "bad_format");
}

TEST(Gguf, ChecksPlaces) {
  EXPECT_EQ(error_of(one_tensor(0, {8}, 16)), "bad_format");  // off alignment
  EXPECT_EQ(error_of(one_tensor(0, {8}, 1 << 16)), "truncated");
  EXPECT_EQ(error_of(one_tensor(0, {8}, std::numeric_limits<std::uint64_t>::max() - 31)),
            "truncated");
  std::string whole = GgufBytes().tensor("a", 8).tensor("b", 9).bytes();
  EXPECT_EQ(error_of(whole), "none");
  whole.pop_back();
  EXPECT_EQ(error_of(whole), "truncated");
}

TEST(Gguf, RefusesOverlapAndTwins) {
  const auto two = [](std::string_view second, std::uint64_t offset) {
    return start(2, 0)
        .text("a")
        .u32(1)
        .u64(16)
        .u32(0)
        .u64(0)
        .text(second)
        .u32(1)
        .u64(16)
        .u32(0)
        .u64(offset)
        .zeros_to(4096)
        .bytes();
  };
  EXPECT_EQ(error_of(two("b", 64)), "none");
  EXPECT_EQ(error_of(two("b", 32)), "bad_format");
  EXPECT_EQ(error_of(two("a", 64)), "bad_format");
}

/// Every prefix of a good file is refused, none crashes.
TEST(Gguf, RefusesEveryPrefix) {
  GgufBytes file;
  file.string("general.architecture", "llama").u32("general.alignment", 32).tensor("a", 3);
  const std::string bytes = file.bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(error_of(bytes.substr(0, size)), "truncated") << size;
}

}  // namespace
}  // namespace andiron::catalog
