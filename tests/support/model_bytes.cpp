// SPDX-License-Identifier: MIT
#include "tests/support/model_bytes.hpp"

namespace andiron::testing {
namespace {
constexpr std::uint32_t kGgufUint16 = 2;
constexpr std::uint32_t kGgufUint32 = 4;
constexpr std::uint32_t kGgufString = 8;
constexpr std::uint32_t kF32 = 0;
}  // namespace

GgufBytes& GgufBytes::string(std::string_view key, std::string_view value) {
  pairs_.text(key).u32(kGgufString).text(value);
  ++pair_count_;
  return *this;
}

GgufBytes& GgufBytes::u16(std::string_view key, std::uint16_t value) {
  pairs_.text(key).u32(kGgufUint16).u16(value);
  ++pair_count_;
  return *this;
}

GgufBytes& GgufBytes::u32(std::string_view key, std::uint32_t value) {
  pairs_.text(key).u32(kGgufUint32).u32(value);
  ++pair_count_;
  return *this;
}

GgufBytes& GgufBytes::tensor(std::string_view name, std::uint64_t elements, char fill) {
  tensors_.push_back({std::string(name), elements, fill});
  return *this;
}

std::string GgufBytes::bytes() const {
  const auto aligned = [this](std::uint64_t size) {
    return (size + alignment - 1) / alignment * alignment;
  };
  ByteString out;
  out.raw("GGUF").u32(version).u64(tensors_.size()).u64(pair_count_).raw(pairs_.bytes());
  std::uint64_t offset = 0;
  for (const F32& tensor : tensors_) {
    out.text(tensor.name).u32(1).u64(tensor.elements).u32(kF32).u64(offset);
    offset = aligned(offset + tensor.elements * 4);
  }
  for (const F32& tensor : tensors_) {
    out.zeros_to(aligned(out.size()));
    out.raw(std::string(tensor.elements * 4, tensor.fill));
  }
  return out.bytes();
}

std::string safetensors_bytes(std::string_view header, std::uint64_t data_bytes, char fill) {
  return ByteString().text(header).raw(std::string(data_bytes, fill)).bytes();
}

std::string safetensors_vector(std::string_view name, std::uint64_t elements, char fill) {
  const std::string header = "{\"" + std::string(name) + "\":{\"dtype\":\"F32\",\"shape\":[" +
                             std::to_string(elements) + "],\"data_offsets\":[0," +
                             std::to_string(elements * 4) + "]}}";
  return safetensors_bytes(header, elements * 4, fill);
}

}  // namespace andiron::testing
