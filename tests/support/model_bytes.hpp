// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace andiron::testing {

/// Little-endian bytes, one piece after another: what header tests are made of.
class ByteString {
 public:
  ByteString& u8(std::uint64_t value) { return put(value, 1); }
  ByteString& u16(std::uint64_t value) { return put(value, 2); }
  ByteString& u32(std::uint64_t value) { return put(value, 4); }
  ByteString& u64(std::uint64_t value) { return put(value, 8); }
  ByteString& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  /// A length of 8 bytes, and the bytes.
  ByteString& text(std::string_view bytes) { return u64(bytes.size()).raw(bytes); }
  ByteString& zeros_to(std::uint64_t size) {
    if (bytes_.size() < size) bytes_.resize(size, '\0');
    return *this;
  }
  const std::string& bytes() const noexcept { return bytes_; }
  std::uint64_t size() const noexcept { return bytes_.size(); }

 private:
  ByteString& put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i)
      bytes_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
    return *this;
  }
  std::string bytes_;
};

/// A GGUF file of F32 vectors, written the way llama.cpp does.
class GgufBytes {
 public:
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;

  GgufBytes& string(std::string_view key, std::string_view value);
  GgufBytes& u16(std::string_view key, std::uint16_t value);
  GgufBytes& u32(std::string_view key, std::uint32_t value);
  /// `elements` floats, whose bytes are made from `fill`.
  GgufBytes& tensor(std::string_view name, std::uint64_t elements, char fill = '\1');
  std::string bytes() const;

 private:
  struct F32 {
    std::string name;
    std::uint64_t elements;
    char fill;
  };
  ByteString pairs_;
  std::uint64_t pair_count_ = 0;
  std::vector<F32> tensors_;
};

/// A safetensors file: this header, and `data_bytes` bytes of `fill`.
std::string safetensors_bytes(std::string_view header, std::uint64_t data_bytes, char fill = '\1');
/// A safetensors file with one F32 vector.
std::string safetensors_vector(std::string_view name, std::uint64_t elements, char fill = '\1');

}  // namespace andiron::testing
