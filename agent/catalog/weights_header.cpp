// SPDX-License-Identifier: MIT
#include "agent/catalog/weights_header.hpp"

#include <algorithm>
#include <string>

#include "agent/catalog/gguf.hpp"
#include "agent/catalog/safetensors.hpp"

namespace andiron::catalog {

Result<std::vector<Tensor>> read_tensors(int fd, std::uint64_t size, std::string_view name) {
  HeaderReader start = HeaderReader::over_file(fd, size);
  const std::string magic = TRY(start.read_string(std::min<std::uint64_t>(4, size)));
  HeaderReader reader = HeaderReader::over_file(fd, size);
  if (has_gguf_magic(magic)) return TRY(parse_gguf(reader, true)).tensors;
  if (name.ends_with(".safetensors")) return TRY(parse_safetensors(reader, true)).tensors;
  return std::vector<Tensor>();
}

}  // namespace andiron::catalog
