// SPDX-License-Identifier: MIT
#include "agent/catalog/resolved_json.hpp"

#include <cstdint>
#include <string_view>

#include "agent/base/check.hpp"
#include "agent/base/json_walk.hpp"

namespace andiron::catalog {
namespace {

/// Writes `"key":[a,b,...]` as it goes: a tree of a million tensors would be 1 GB.
template <class Range, class Write>
void write_list(std::string& out, std::string_view key, const Range& range, Write write) {
  out += ",\"";
  out += key;
  out += "\":[";
  bool first = true;
  for (const auto& element : range) {
    const std::size_t before = out.size();
    if (!first) out += ',';
    const std::size_t start = out.size();
    write(element);
    if (out.size() == start)
      out.resize(before);
    else
      first = false;
  }
  out += ']';
}

void write_number(std::string& out, std::string_view key, std::uint64_t value) {
  out += ",\"";
  out += key;
  out += "\":";
  out += std::to_string(value);
}

}  // namespace

void write_tensor(std::string& out, const Tensor& tensor, std::string_view place_key,
                  std::string_view place) {
  out += "{\"name\":" + quote_json(tensor.name) + ",\"dtype\":" + quote_json(tensor.dtype);
  write_list(out, "shape", tensor.shape,
             [&](std::uint64_t extent) { out += std::to_string(extent); });
  out += ",\"";
  out += place_key;
  out += "\":";
  out += place;
  write_number(out, "offset", tensor.offset);
  write_number(out, "bytes", tensor.bytes);
  out += '}';
}

std::string to_json(const Resolved& resolved) {
  std::string out = "{\"source\":" + quote_json(resolved.source);
  std::vector<std::string> quoted;
  for (const ModelFile& file : resolved.files)
    quoted.push_back(quote_json(file.path));
  std::size_t index = 0;
  write_list(out, "files", resolved.files, [&](const ModelFile& file) {
    out += "{\"path\":" + quoted[index++];
    write_number(out, "bytes", file.identity.size);
    write_number(out, "dev", file.identity.dev);
    write_number(out, "ino", file.identity.ino);
    out += '}';
  });
  write_number(out, "bytes", resolved.bytes);
  write_list(out, "tensors", resolved.tensors, [&](const Tensor& tensor) {
    CHECK(tensor.file < quoted.size());
    write_tensor(out, tensor, "file", quoted[tensor.file]);
  });
  index = 0;
  write_list(out, "also", resolved.files, [&](const ModelFile& file) {
    if (file.companion) out += quoted[index];
    ++index;
  });
  write_list(out, "notes", resolved.notes,
             [&](const std::string& note) { out += quote_json(note); });
  out += '}';
  return out;
}

}  // namespace andiron::catalog
