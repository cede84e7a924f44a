// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace andiron::client {

/// What the index of a lease says. Every place, offset and size was checked against the others.
struct LeaseIndex {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
  };
  struct Segment {
    std::uint64_t file = 0;  // place in files
    std::uint64_t file_offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t fd = 0;      // place among the descriptors of the lease, the index being 0
    std::uint64_t offset = 0;  // where in the descriptor's file it begins
    std::string transport;
  };
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t segment = 0;  // place in segments
    std::uint64_t offset = 0;   // where in the segment it begins
    std::uint64_t bytes = 0;
  };

  std::string model;
  std::string tier;
  std::uint64_t generation = 0;
  std::uint64_t bytes = 0;  // of all segments
  std::vector<File> files;
  std::vector<Segment> segments;
  std::vector<Tensor> tensors;
};

/// Errors: bad_format, and too_large past two million tensors or a hundred thousand files.
Result<LeaseIndex> parse_index(std::string_view text);

/// The same of what lies behind the descriptor that brought it. Errors: those, too_large past 256
/// MiB, and io_error.
Result<LeaseIndex> read_index(int fd);

}  // namespace andiron::client
