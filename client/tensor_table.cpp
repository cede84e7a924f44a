// SPDX-License-Identifier: MIT
#include "client/tensor_table.hpp"

#include <utility>

namespace andiron::client {

TensorTable::TensorTable(IndexTensors entries, const std::vector<andiron_segment>& segments)
    : entries_(std::move(entries)) {
  shown_.reserve(entries_.size());
  by_name_.reserve(entries_.size());
  for (const LeaseIndex::Tensor& tensor : entries_) {
    const andiron_segment& segment = segments[tensor.segment];
    const auto* base = static_cast<const std::byte*>(segment.data);
    by_name_.emplace(tensor.name, shown_.size());  // The first of a name stays.
    shown_.push_back({tensor.name.c_str(), tensor.dtype.c_str(), tensor.shape.data(),
                      tensor.shape.size(), segment.file, segment.file_offset + tensor.offset,
                      tensor.bytes, tensor.bytes == 0 ? nullptr : base + tensor.offset});
  }
}

const andiron_tensor* TensorTable::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &shown_[found->second];
}

}  // namespace andiron::client
