// SPDX-License-Identifier: MIT
#include "agent/catalog/safetensors.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/model_bytes.hpp"

namespace andiron::catalog {
namespace {

using testing::ByteString;
using testing::safetensors_bytes;

Result<SafetensorsHeader> parse(const std::string& bytes, bool keep = true) {
  HeaderReader reader = HeaderReader::over_bytes(std::as_bytes(std::span(bytes)));
  return parse_safetensors(reader, keep);
}

std::string_view error_of(const std::string& bytes) {
  const auto result = parse(bytes);
  return result ? "none" : error_name(result.error().errc());
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"("t":{"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" +
         offsets + "]}";
}

TEST(Safetensors, ReadsTensorsInTheFilesOrder) {
  const std::string bytes =
      safetensors_bytes(R"({"__metadata__":{"format":"pt"},)"
                        R"("b":{"dtype":"F16","shape":[2,3],"data_offsets":[8,20]},)"
                        R"("a":{"shape":[2],"data_offsets":[0,8],"dtype":"F32"}}   )",
                        20);
  const auto header = parse(bytes);
  ASSERT_TRUE(header) << header.error().message();
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].offset, bytes.size() - 20);
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_EQ(header->tensors[1].dtype, "F16");
  EXPECT_EQ(header->tensors[1].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(header->tensors[1].offset, bytes.size() - 12);
  EXPECT_EQ(header->tensors[1].bytes, 12U);
  const auto lean = parse(bytes, false);
  ASSERT_TRUE(lean);
  EXPECT_EQ(lean->tensor_count, 2U);
  EXPECT_TRUE(lean->tensors.empty());
}

TEST(Safetensors, KnowsTypes) {
  const auto bytes_of_8 = [](const std::string& dtype, std::uint64_t bytes) {
    return error_of(
        safetensors_bytes("{" + entry(dtype, "8", "0," + std::to_string(bytes)) + "}", bytes));
  };
  for (const char* dtype : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"})
    EXPECT_EQ(bytes_of_8(dtype, 8), "none") << dtype;
  for (const char* dtype : {"I16", "U16", "F16", "BF16"})
    EXPECT_EQ(bytes_of_8(dtype, 16), "none") << dtype;
  for (const char* dtype : {"I32", "U32", "F32"})
    EXPECT_EQ(bytes_of_8(dtype, 32), "none") << dtype;
  for (const char* dtype : {"I64", "U64", "F64", "C64"})
    EXPECT_EQ(bytes_of_8(dtype, 64), "none") << dtype;
  EXPECT_EQ(bytes_of_8("F4", 4), "none");
  EXPECT_EQ(bytes_of_8("F6_E2M3", 6), "none");
  EXPECT_EQ(bytes_of_8("F7", 7), "bad_format");
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("F4", "3", "0,2") + "}", 2)), "bad_format");
}

TEST(Safetensors, TakesScalarsAndEmptyTensors) {
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("F32", "", "0,4") + "}", 4)), "none");
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("F32", "0,7", "0,0") + "}", 0)), "none");
  EXPECT_EQ(error_of(safetensors_bytes("{}", 0)), "none");
}

TEST(Safetensors, ChecksTheHeadersLength) {
  EXPECT_EQ(error_of("1234567"), "truncated");
  EXPECT_EQ(error_of(ByteString().u64(100).raw("{}").bytes()), "truncated");
  EXPECT_EQ(error_of(ByteString().u64(kMaxHeaderBytes + 1).raw("{}").bytes()), "too_large");
  EXPECT_EQ(error_of(ByteString().u64(std::numeric_limits<std::uint64_t>::max()).bytes()),
            "too_large");
  EXPECT_EQ(error_of(ByteString().u64(0).bytes()), "bad_format");
}

TEST(Safetensors, RefusesWhatIsNoHeader) {
  for (const char* header :
       {"[]",
        " {}",
        "{",
        "{}x",
        R"({"t":1})",
        R"({"t":[]})",
        R"({"t":{}})",
        R"({"t":null})",
        R"({"t":{"dtype":"F32","shape":[1]}})",
        R"({"t":{"dtype":"F32","data_offsets":[0,4]}})",
        R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
        R"({"t":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})",
        R"({"t":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})",
        R"({"t":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})",
        R"({"t":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})",
        R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})",
        R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4]}})",
        R"({"t":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
        R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})",
        "{\"\xff\":1}"}) {
    EXPECT_EQ(error_of(safetensors_bytes(header, 4)), "bad_format") << header;
  }
}

TEST(Safetensors, ChecksSizes) {
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("F32", "2", "0,4") + "}", 4)), "bad_format");
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("F32", "1", "4,0") + "}", 4)), "bad_format");
  EXPECT_EQ(
      error_of(safetensors_bytes("{" + entry("F32", "4294967296,4294967296", "0,0") + "}", 4)),
      "bad_format");
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("F32", "18446744073709551616", "0,0") + "}", 4)),
            "bad_format");
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("U8", "8", "0,8") + "}", 7)), "truncated");
  EXPECT_EQ(error_of(safetensors_bytes("{" + entry("U8", "8", "0,8") + "}", 9)), "bad_format");
}

TEST(Safetensors, RefusesGapsOverlapsAndTwins) {
  const auto two = [](const std::string& second, const std::string& offsets) {
    return error_of(
        safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},")" + second +
                              R"(":{"dtype":"U8","shape":[4],"data_offsets":[)" + offsets + "]}}",
                          8));
  };
  EXPECT_EQ(two("b", "4,8"), "none");
  EXPECT_EQ(two("b", "3,7"), "bad_format");
  EXPECT_EQ(two("b", "5,9"), "bad_format");
  EXPECT_EQ(two("a", "4,8"), "bad_format");
}

TEST(Safetensors, SurvivesDeepNesting) {
  const std::string deep = "{\"t\":" + std::string(1 << 20, '[');
  EXPECT_EQ(error_of(safetensors_bytes(deep, 0)), "bad_format");
  std::string objects = "{\"__metadata__\":";
  for (int i = 0; i < 100000; ++i)
    objects += "{\"a\":";
  EXPECT_EQ(error_of(safetensors_bytes(objects, 0)), "bad_format");
}

}  // namespace
}  // namespace andiron::catalog
