// SPDX-License-Identifier: MIT
#include "agent/catalog/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <string>
#include <utility>

#include "agent/base/range.hpp"

namespace andiron::catalog {
namespace {

constexpr std::string_view kMagic = "GGUF";
// Keys are dotted names of the format's own; llama.cpp writes none of over 100 bytes.
constexpr std::uint64_t kMaxKeyBytes = 4096;
// ggml allows 64 bytes, stable-diffusion.cpp's build of it 160.
constexpr std::uint64_t kMaxTensorNameBytes = 1024;
// ggml allows 4; nobody has needed more than 5.
constexpr std::uint32_t kMaxDimensions = 8;
// Arrays of arrays are allowed by the specification and written by nobody.
constexpr int kMaxArrayDepth = 8;

struct BlockType {
  std::uint32_t id;
  const char* name;
  std::uint32_t elements;  // of a block
  std::uint32_t bytes;     // of a block
};

// Removed numbers (4, 5, 31 to 33, 36 to 38) are in no file that a current runtime loads.
constexpr BlockType kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
};

const BlockType* find_type(std::uint32_t id) noexcept {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [id](const BlockType& t) { return t.id == id; });
  return found == std::end(kTypes) ? nullptr : found;
}

enum class ValueType : std::uint32_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  float32,
  boolean,
  string,
  array,
  uint64,
  int64,
  float64,
};

/// Bytes of a value, of a string or array the fewest that one can take; 0 for no such type.
std::uint64_t least_bytes(ValueType type) noexcept {
  switch (type) {
    case ValueType::uint8:
    case ValueType::int8:
    case ValueType::boolean:
      return 1;
    case ValueType::uint16:
    case ValueType::int16:
      return 2;
    case ValueType::uint32:
    case ValueType::int32:
    case ValueType::float32:
      return 4;
    case ValueType::uint64:
    case ValueType::int64:
    case ValueType::float64:
    case ValueType::string:
      return 8;
    case ValueType::array:
      return 12;
  }
  return 0;
}

bool is_integer(ValueType type) noexcept {
  return type != ValueType::float32 && type != ValueType::float64 && type != ValueType::boolean &&
         type != ValueType::string && type != ValueType::array;
}

class Parser {
 public:
  Parser(HeaderReader& reader, bool keep_tensors) : reader_(reader), keep_(keep_tensors) {}

  Result<GgufHeader> parse() {
    std::uint64_t pairs = 0;
    TRY(read_preamble(pairs));
    for (std::uint64_t i = 0; i < pairs; ++i)
      TRY(read_pair().wrap("metadata " + std::to_string(i)));
    TRY(read_tensors());
    return std::move(header_);
  }

 private:
  Result<void> read_preamble(std::uint64_t& pairs);
  Result<void> read_pair();
  Result<ValueType> read_type();
  Result<std::uint64_t> read_integer(ValueType type);
  Result<std::uint64_t> read_count(std::uint64_t least_bytes_each);
  Result<std::uint64_t> read_largest(ValueType type);
  Result<void> skip_value(ValueType type, int depth);
  Result<void> read_alignment(ValueType type);
  std::uint64_t* architecture_field(std::string_view key) noexcept;
  Result<void> read_tensors();
  Result<Tensor> read_tensor();
  Result<void> place_tensors();

  HeaderReader& reader_;
  bool keep_;
  GgufHeader header_;
  std::vector<ByteRange> ranges_;  // offsets from the data's start until placed
  std::vector<std::size_t> name_hashes_;
};

Result<void> Parser::read_preamble(std::uint64_t& pairs) {
  const std::string magic = TRY(reader_.read_string(kMagic.size()));
  if (magic != kMagic) return make_error(Errc::bad_format, "no GGUF magic");
  header_.version = TRY(reader_.read_le<std::uint32_t>());
  // A big-endian file has its version's low byte last.
  if (header_.version != 0 && (header_.version & 0xffff) == 0)
    return make_error(Errc::bad_format, "big-endian GGUF: only little-endian files are read");
  if (header_.version != 2 && header_.version != 3) {
    return make_error(Errc::bad_format, "GGUF version " + std::to_string(header_.version) +
                                            ": only 2 and 3 are read");
  }
  header_.tensor_count = TRY(reader_.read_le<std::uint64_t>());
  pairs = TRY(reader_.read_le<std::uint64_t>());
  if (header_.tensor_count > kMaxTensors)
    return make_error(Errc::too_large, std::to_string(header_.tensor_count) + " tensors");
  constexpr std::uint64_t kLeastTensor = 8 + 1 + 4 + 4 + 8;  // name, dimensions, type, offset
  constexpr std::uint64_t kLeastPair = 8 + 1 + 4 + 1;        // key, type, value
  if (header_.tensor_count > reader_.remaining() / kLeastTensor)
    return make_error(Errc::truncated, "header too short for its count of tensors");
  if (pairs > reader_.remaining() / kLeastPair)
    return make_error(Errc::truncated, "header too short for its count of metadata");
  return {};
}

Result<ValueType> Parser::read_type() {
  const auto type = static_cast<ValueType>(TRY(reader_.read_le<std::uint32_t>()));
  if (least_bytes(type) == 0) {
    return make_error(Errc::bad_format,
                      "value type " + std::to_string(static_cast<std::uint32_t>(type)));
  }
  return type;
}

/// Negative values come out as 0: nothing that is read here can be negative.
Result<std::uint64_t> Parser::read_integer(ValueType type) {
  switch (type) {
    case ValueType::uint8:
      return TRY(reader_.read_le<std::uint8_t>());
    case ValueType::uint16:
      return TRY(reader_.read_le<std::uint16_t>());
    case ValueType::uint32:
      return TRY(reader_.read_le<std::uint32_t>());
    case ValueType::uint64:
      return TRY(reader_.read_le<std::uint64_t>());
    case ValueType::int8: {
      const auto value = static_cast<std::int8_t>(TRY(reader_.read_le<std::uint8_t>()));
      return value < 0 ? 0U : static_cast<std::uint64_t>(value);
    }
    case ValueType::int16: {
      const auto value = static_cast<std::int16_t>(TRY(reader_.read_le<std::uint16_t>()));
      return value < 0 ? 0U : static_cast<std::uint64_t>(value);
    }
    case ValueType::int32: {
      const auto value = static_cast<std::int32_t>(TRY(reader_.read_le<std::uint32_t>()));
      return value < 0 ? 0U : static_cast<std::uint64_t>(value);
    }
    case ValueType::int64: {
      const auto value = static_cast<std::int64_t>(TRY(reader_.read_le<std::uint64_t>()));
      return value < 0 ? 0U : static_cast<std::uint64_t>(value);
    }
    default:
      return make_error(Errc::bad_format, "not an integer");
  }
}

Result<std::uint64_t> Parser::read_count(std::uint64_t least_bytes_each) {
  const auto count = TRY(reader_.read_le<std::uint64_t>());
  if (count > reader_.remaining() / least_bytes_each)
    return make_error(Errc::truncated, "an array or string longer than the file");
  return count;
}

/// An integer, or the largest of an array of them: models whose layers differ give one each.
Result<std::uint64_t> Parser::read_largest(ValueType type) {
  if (type != ValueType::array) return read_integer(type);
  const ValueType element = TRY(read_type());
  const std::uint64_t count = TRY(read_count(least_bytes(element)));
  std::uint64_t largest = 0;
  for (std::uint64_t i = 0; i < count; ++i)
    largest = std::max(largest, TRY(read_integer(element)));
  return largest;
}

Result<void> Parser::skip_value(ValueType type, int depth) {
  if (type == ValueType::string) return reader_.skip(TRY(reader_.read_le<std::uint64_t>()));
  if (type != ValueType::array) return reader_.skip(least_bytes(type));
  if (depth == kMaxArrayDepth) return make_error(Errc::bad_format, "arrays nested too deep");
  const ValueType element = TRY(read_type());
  const std::uint64_t count = TRY(read_count(least_bytes(element)));
  if (element != ValueType::string && element != ValueType::array)
    return reader_.skip(count * least_bytes(element));
  for (std::uint64_t i = 0; i < count; ++i)
    TRY(skip_value(element, depth + 1));
  return {};
}

Result<void> Parser::read_alignment(ValueType type) {
  if (type != ValueType::uint32) return make_error(Errc::bad_format, "general.alignment's type");
  header_.alignment = TRY(reader_.read_le<std::uint32_t>());
  if (header_.alignment < 8 || !std::has_single_bit(header_.alignment)) {
    return make_error(Errc::bad_format,
                      "general.alignment of " + std::to_string(header_.alignment));
  }
  return {};
}

/// The field for a key such as "llama.block_count". Writers put general.architecture first.
std::uint64_t* Parser::architecture_field(std::string_view key) noexcept {
  ModelMetadata& metadata = header_.metadata;
  if (metadata.architecture.empty() || !key.starts_with(metadata.architecture)) return nullptr;
  key.remove_prefix(metadata.architecture.size());
  if (key == ".context_length") return &metadata.context_length;
  if (key == ".block_count") return &metadata.block_count;
  if (key == ".embedding_length") return &metadata.embedding_length;
  if (key == ".attention.head_count") return &metadata.head_count;
  if (key == ".attention.head_count_kv") return &metadata.head_count_kv;
  return nullptr;
}

Result<void> Parser::read_pair() {
  const auto length = TRY(reader_.read_le<std::uint64_t>());
  if (length > reader_.remaining()) return make_error(Errc::truncated, "a key past the end");
  if (length == 0 || length > kMaxKeyBytes) return make_error(Errc::bad_format, "a key's length");
  const std::string key = TRY(reader_.read_string(length));
  const ValueType type = TRY(read_type());
  if (key == "general.alignment") return read_alignment(type);
  if (key == "general.architecture" && type == ValueType::string) {
    const std::uint64_t bytes = TRY(read_count(1));
    if (bytes > kMaxKeyBytes) return make_error(Errc::bad_format, "general.architecture's length");
    header_.metadata.architecture = TRY(reader_.read_string(bytes));
    return {};
  }
  if ((key == "split.no" || key == "split.count") && is_integer(type)) {
    (key == "split.no" ? header_.split_no : header_.split_count) = TRY(read_integer(type));
    return {};
  }
  if (std::uint64_t* field = architecture_field(key);
      field != nullptr && (is_integer(type) || type == ValueType::array)) {
    *field = TRY(read_largest(type));
    return {};
  }
  return skip_value(type, 0);
}

Result<void> Parser::read_tensors() {
  ranges_.reserve(header_.tensor_count);
  name_hashes_.reserve(header_.tensor_count);
  if (keep_) header_.tensors.reserve(header_.tensor_count);
  for (std::uint64_t i = 0; i < header_.tensor_count; ++i) {
    Tensor tensor = TRY(read_tensor().wrap("tensor " + std::to_string(i)));
    ranges_.push_back({tensor.offset, tensor.bytes});
    name_hashes_.push_back(std::hash<std::string>{}(tensor.name));
    if (keep_) header_.tensors.push_back(std::move(tensor));
  }
  // By hash, so that names need not be kept: of a hundred thousand different ones, two collide in
  // one of four billion files.
  std::sort(name_hashes_.begin(), name_hashes_.end());
  if (std::adjacent_find(name_hashes_.begin(), name_hashes_.end()) != name_hashes_.end())
    return make_error(Errc::bad_format, "two tensors of one name");
  return place_tensors();
}

Result<Tensor> Parser::read_tensor() {
  Tensor tensor;
  const std::uint64_t length = TRY(read_count(1));
  if (length == 0 || length > kMaxTensorNameBytes)
    return make_error(Errc::bad_format, "a name of " + std::to_string(length) + " bytes");
  tensor.name = TRY(reader_.read_string(length));
  const auto dimensions = TRY(reader_.read_le<std::uint32_t>());
  if (dimensions > kMaxDimensions)
    return make_error(Errc::bad_format, std::to_string(dimensions) + " dimensions");
  std::uint64_t rows = 1;
  bool overflow = false;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    tensor.shape.push_back(TRY(reader_.read_le<std::uint64_t>()));
    if (i > 0) overflow |= __builtin_mul_overflow(rows, tensor.shape.back(), &rows);
  }
  const auto id = TRY(reader_.read_le<std::uint32_t>());
  const BlockType* type = find_type(id);
  if (type == nullptr) return make_error(Errc::bad_format, "unknown type " + std::to_string(id));
  tensor.dtype = type->name;
  const std::uint64_t row = tensor.shape.empty() ? 1 : tensor.shape.front();
  if (row % type->elements != 0)
    return make_error(Errc::bad_format, "a row that is no whole number of blocks");
  overflow |= __builtin_mul_overflow(row / type->elements, type->bytes, &tensor.bytes);
  overflow |= __builtin_mul_overflow(tensor.bytes, rows, &tensor.bytes);
  if (overflow) return make_error(Errc::bad_format, "more elements than can be counted");
  tensor.offset = TRY(reader_.read_le<std::uint64_t>());
  return tensor;
}

/// Turns offsets into the file's, once the header's end is known, and checks them.
Result<void> Parser::place_tensors() {
  if (header_.tensor_count == 0) {
    header_.data_offset = reader_.position();
    return {};
  }
  const std::uint64_t mask = header_.alignment - 1;
  header_.data_offset = (reader_.position() + mask) & ~mask;
  for (ByteRange& range : ranges_) {
    if ((range.offset & mask) != 0) return make_error(Errc::bad_format, "a tensor off alignment");
    std::uint64_t end = 0;
    if (__builtin_add_overflow(range.offset, header_.data_offset, &range.offset) ||
        __builtin_add_overflow(range.offset, range.length, &end) || end > reader_.size()) {
      return make_error(Errc::truncated,
                        "a tensor ends past the file's end at " + std::to_string(reader_.size()));
    }
  }
  for (std::size_t i = 0; i < header_.tensors.size(); ++i)
    header_.tensors[i].offset = ranges_[i].offset;
  std::erase_if(ranges_, [](const ByteRange& range) { return range.length == 0; });
  std::sort(ranges_.begin(), ranges_.end());
  for (std::size_t i = 1; i < ranges_.size(); ++i) {
    if (ranges_[i].offset < ranges_[i - 1].end())
      return make_error(Errc::bad_format, "two tensors overlap");
  }
  return {};
}

}  // namespace

bool has_gguf_magic(std::string_view first_bytes) noexcept {
  return first_bytes.starts_with(kMagic);
}

Result<GgufHeader> parse_gguf(HeaderReader& reader, bool keep_tensors) {
  return Parser(reader, keep_tensors).parse();
}

}  // namespace andiron::catalog
