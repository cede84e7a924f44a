// SPDX-License-Identifier: MIT
#include "agent/catalog/safetensors.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "agent/base/json_walk.hpp"
#include "agent/base/range.hpp"
#include "agent/catalog/gguf.hpp"

namespace andiron::catalog {
namespace {

// {"name": {"shape": [...]}}
constexpr std::size_t kDepth = 3;
// No tensor library goes past 64.
constexpr std::size_t kMaxDimensions = 64;

struct ElementType {
  std::string_view name;
  unsigned bits;
};

// As of safetensors 0.8.
constexpr ElementType kTypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

/// What an entry of the header said, while it is being read.
struct Entry {
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
};

Result<std::uint64_t> bytes_needed(const Entry& entry) {
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const ElementType& t) { return t.name == *entry.dtype; });
  if (type == std::end(kTypes))
    return make_error(Errc::bad_format, "unknown type '" + entry.dtype->substr(0, 32) + "'");
  std::uint64_t bits = type->bits;
  for (const std::uint64_t extent : *entry.shape) {
    if (__builtin_mul_overflow(bits, extent, &bits))
      return make_error(Errc::bad_format, "more elements than can be counted");
  }
  if (bits % 8 != 0) return make_error(Errc::bad_format, "elements that fill no whole byte");
  return bits / 8;
}

class Parser {
 public:
  explicit Parser(bool keep_tensors) : keep_(keep_tensors) {}

  Result<void> visit(const JsonEvent& event) {
    using Kind = JsonEvent::Kind;
    const std::vector<std::string>& path = event.path;
    if (path.empty()) {
      if (event.kind == Kind::begin_object || event.kind == Kind::end_object) return {};
      return make_error(Errc::bad_format, "header is no JSON object");
    }
    if (path[0] == "__metadata__") return {};
    Result<void> result = path.size() == 1 ? entry_event(event) : field_event(event);
    return std::move(result).wrap("tensor '" + path[0].substr(0, kShownName) + "'");
  }

  Result<SafetensorsHeader> finish(std::uint64_t data_offset, std::uint64_t file_size);

 private:
  static constexpr std::size_t kShownName = 128;
  Result<void> entry_event(const JsonEvent& event);
  Result<void> field_event(const JsonEvent& event);
  Result<void> close_entry(const std::string& name);

  bool keep_;
  Entry entry_;
  SafetensorsHeader header_;
  std::vector<ByteRange> ranges_;
  std::vector<std::size_t> name_hashes_;
};

Result<void> Parser::entry_event(const JsonEvent& event) {
  if (event.kind == JsonEvent::Kind::begin_object) {
    entry_ = {};
    return {};
  }
  if (event.kind == JsonEvent::Kind::end_object) return close_entry(event.path[0]);
  return make_error(Errc::bad_format, "is no JSON object");
}

Result<void> Parser::field_event(const JsonEvent& event) {
  using Kind = JsonEvent::Kind;
  const std::string& field = event.path[1];
  if (event.path.size() == 2 && field == "dtype" && event.kind == Kind::string && !entry_.dtype) {
    entry_.dtype = std::string(event.text);
    return {};
  }
  auto* list = field == "shape"          ? &entry_.shape
               : field == "data_offsets" ? &entry_.offsets
                                         : nullptr;
  if (list == nullptr) {
    return make_error(Errc::bad_format, "unexpected field '" + field.substr(0, 32) + "'");
  }
  if (event.path.size() == 2) {
    if (event.kind == Kind::end_array) return {};
    if (event.kind != Kind::begin_array || list->has_value())
      return make_error(Errc::bad_format, "'" + field + "' is no list");
    list->emplace();
    return {};
  }
  if (event.kind != Kind::natural || (*list)->size() == kMaxDimensions)
    return make_error(Errc::bad_format, "'" + field + "' is no list of a few whole numbers");
  (*list)->push_back(event.number);
  return {};
}

Result<void> Parser::close_entry(const std::string& name) {
  if (!entry_.dtype || !entry_.shape || !entry_.offsets || entry_.offsets->size() != 2)
    return make_error(Errc::bad_format, "has not all of dtype, shape and two data_offsets");
  const std::uint64_t begin = (*entry_.offsets)[0];
  const std::uint64_t end = (*entry_.offsets)[1];
  if (end < begin || end - begin != TRY(bytes_needed(entry_)))
    return make_error(Errc::bad_format, "data_offsets that do not fit its shape and dtype");
  if (++header_.tensor_count > kMaxTensors)
    return make_error(Errc::too_large, "more than a million tensors");
  ranges_.push_back({begin, end - begin});
  name_hashes_.push_back(std::hash<std::string>{}(name));
  if (keep_) {
    header_.tensors.push_back(
        {name, std::move(*entry_.dtype), std::move(*entry_.shape), 0, begin, end - begin});
  }
  return {};
}

Result<SafetensorsHeader> Parser::finish(std::uint64_t data_offset, std::uint64_t file_size) {
  header_.data_offset = data_offset;
  std::sort(name_hashes_.begin(), name_hashes_.end());
  if (std::adjacent_find(name_hashes_.begin(), name_hashes_.end()) != name_hashes_.end())
    return make_error(Errc::bad_format, "two tensors of one name");
  std::sort(ranges_.begin(), ranges_.end());
  std::uint64_t end = 0;
  for (const ByteRange& range : ranges_) {
    if (range.offset != end)
      return make_error(Errc::bad_format,
                        range.offset < end ? "two tensors overlap" : "a gap between tensors");
    end = range.end();
  }
  const std::uint64_t available = file_size - data_offset;
  if (end > available) {
    return make_error(Errc::truncated, std::to_string(end - available) + " bytes of " +
                                           std::to_string(data_offset + end) + " are missing");
  }
  if (end < available) return make_error(Errc::bad_format, "bytes after the last tensor");
  for (Tensor& tensor : header_.tensors)
    tensor.offset += data_offset;
  std::sort(header_.tensors.begin(), header_.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.name < b.name;
  });
  return std::move(header_);
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(HeaderReader& reader, bool keep_tensors) {
  const auto length = TRY(reader.read_le<std::uint64_t>());
  if (length > kMaxHeaderBytes - reader.position())
    return make_error(Errc::too_large, "header of " + std::to_string(length) + " bytes");
  const std::string text = TRY(reader.read_string(length));
  if (!text.starts_with('{')) return make_error(Errc::bad_format, "header is no JSON object");
  Parser parser(keep_tensors);
  TRY(walk_json(text, kDepth, [&parser](const JsonEvent& event) { return parser.visit(event); }));
  return parser.finish(reader.position(), reader.size());
}

}  // namespace andiron::catalog
