// SPDX-License-Identifier: MIT
// What an agent sends to a client: packets, and the index of a lease.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/base/check.hpp"
#include "client/lease_index.hpp"
#include "client/messages.hpp"

namespace {

/// That begin + length is no more than the limit, counted where it cannot overflow.
bool within(std::uint64_t begin, std::uint64_t length, std::uint64_t limit) {
  return static_cast<unsigned __int128>(begin) + length <= limit;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace andiron::client;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto message = parse_message(text)) CHECK(!message->op.empty());
  if (const auto index = parse_index(text)) {
    for (const LeaseIndex::Segment& segment : index->segments) {
      CHECK(segment.file < index->files.size() && segment.fd > 0);
      CHECK(within(segment.file_offset, segment.bytes, index->files[segment.file].bytes));
      CHECK(within(segment.offset, segment.bytes, INT64_MAX));
    }
    for (const LeaseIndex::Tensor& tensor : index->tensors) {
      CHECK(tensor.segment < index->segments.size() && tensor.shape.size() <= 64);
      CHECK(within(tensor.offset, tensor.bytes, index->segments[tensor.segment].bytes));
      CHECK(tensor.name.find('\0') == std::string::npos);
    }
  }
  return 0;
}
