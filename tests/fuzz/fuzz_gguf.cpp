// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <span>

#include "agent/base/check.hpp"
#include "agent/catalog/gguf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace andiron::catalog;
  HeaderReader reader = HeaderReader::over_bytes(std::as_bytes(std::span(data, size)));
  const auto header = parse_gguf(reader, true);
  if (!header) return 0;
  CHECK(header->tensors.size() == header->tensor_count);
  for (const Tensor& tensor : header->tensors) {
    CHECK(tensor.offset >= header->data_offset && tensor.offset <= size);
    CHECK(tensor.bytes <= size - tensor.offset);
  }
  return 0;
}
