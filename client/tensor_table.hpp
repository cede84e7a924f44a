// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/include/andiron.h"
#include "client/lease_index.hpp"

namespace andiron::client {

/// A lease's tensors as they are given out: in their order, and by name. Points into itself and
/// into the segments, which have to outlive it. Thread: any.
class TensorTable {
 public:
  /// The entries were checked against those segments.
  TensorTable(IndexTensors entries, const std::vector<andiron_segment>& segments);
  TensorTable(const TensorTable&) = delete;
  TensorTable& operator=(const TensorTable&) = delete;
  ~TensorTable() = default;

  const std::vector<andiron_tensor>& all() const noexcept { return shown_; }
  /// The first of that name.
  const andiron_tensor* find(std::string_view name) const;

 private:
  IndexTensors entries_;
  std::vector<andiron_tensor> shown_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

}  // namespace andiron::client
