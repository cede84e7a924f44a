// SPDX-License-Identifier: MIT
// What an agent sends to a client: packets, and the index of a lease.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/base/check.hpp"
#include "client/lease_index.hpp"
#include "client/messages.hpp"

namespace {

/// That begin + length is no more than the limit, counted where it cannot overflow.
bool within(std::uint64_t begin, std::uint64_t length, std::uint64_t limit) {
  return static_cast<unsigned __int128>(begin) + length <= limit;
}

using namespace andiron::client;

void check(const LeaseIndex& index) {
  for (const LeaseIndex::Segment& segment : index.segments) {
    CHECK(segment.file < index.files.size() && segment.fd > 0);
    CHECK(within(segment.file_offset, segment.bytes, index.files[segment.file].bytes));
    CHECK(within(segment.offset, segment.bytes, INT64_MAX));
  }
}

void check(const IndexTensors& tensors, const LeaseIndex& index) {
  for (const LeaseIndex::Tensor& tensor : tensors) {
    CHECK(tensor.segment < index.segments.size() && tensor.shape.size() <= 64);
    CHECK(within(tensor.offset, tensor.bytes, index.segments[tensor.segment].bytes));
    CHECK(tensor.name.find('\0') == std::string::npos);
  }
}

bool same(const LeaseIndex::Tensor& a, const LeaseIndex::Tensor& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.segment == b.segment &&
         a.offset == b.offset && a.bytes == b.bytes;
}

/// That an index read in two parts is the one that is read at once.
void check_same(const LeaseIndex& head, const IndexTensors& rest, const WholeIndex& whole) {
  CHECK(head.model == whole.index.model && head.tier == whole.index.tier);
  CHECK(head.generation == whole.index.generation && head.bytes == whole.index.bytes);
  CHECK(head.files.size() == whole.index.files.size());
  CHECK(head.segments.size() == whole.index.segments.size());
  CHECK(rest.size() == whole.tensors.size());
  for (std::size_t i = 0; i < rest.size(); ++i)
    CHECK(same(rest[i], whole.tensors[i]));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto message = parse_message(text)) CHECK(!message->op.empty());
  const auto whole = parse_index(text);
  if (whole) {
    check(whole->index);
    check(whole->tensors, whole->index);
  }
  const std::size_t place = find_tensors(text, 0);
  if (place == std::string_view::npos) return 0;
  const auto head = parse_head(text.substr(0, place));
  if (!head) return 0;
  check(*head);
  const auto rest = parse_rest('{' + std::string(text.substr(place)), *head);
  if (!rest) return 0;
  check(*rest, *head);
  CHECK(whole.has_value());
  check_same(*head, *rest, *whole);
  return 0;
}
