// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <span>

#include "agent/base/check.hpp"
#include "agent/catalog/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace andiron::catalog;
  HeaderReader reader = HeaderReader::over_bytes(std::as_bytes(std::span(data, size)));
  const auto header = parse_safetensors(reader, true);
  if (!header) return 0;
  CHECK(header->tensors.size() == header->tensor_count);
  std::uint64_t end = header->data_offset;
  for (const Tensor& tensor : header->tensors) {
    CHECK(tensor.offset == end);
    end += tensor.bytes;
  }
  CHECK(end == size);
  return 0;
}
