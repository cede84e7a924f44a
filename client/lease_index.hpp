// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::client {

/// What the index of a lease says, but for its tensors. Every place, offset and size was checked
/// against the others.
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
};

using IndexTensors = std::vector<LeaseIndex::Tensor>;

struct WholeIndex {
  LeaseIndex index;
  IndexTensors tensors;
};

/// Errors: bad_format, and too_large past two million tensors or a hundred thousand files.
Result<WholeIndex> parse_index(std::string_view text);

/// Where the tensors' key stands in an index, from a place on; npos where it is not, or is written
/// in another way than the agent's. It may turn out to be something else: parse_head() knows.
std::size_t find_tensors(std::string_view text, std::size_t from);

/// An index as far as the tensors' key. Nothing, where that is not good by itself and all but the
/// tensors: then the whole has to be parsed.
std::optional<LeaseIndex> parse_head(std::string_view text);

/// The rest of it: '{', then all from the tensors' key on. Errors: as parse_index(), and bad_format
/// for what the head has said already.
Result<IndexTensors> parse_rest(std::string_view text, const LeaseIndex& head);

/// The index behind the descriptor that brought it. The tensors are nearly all of it, are not
/// needed to attach, and come last: reading them is put off. Thread: one at a time.
class IndexFile {
 public:
  IndexFile() = default;
  /// Errors: those of parse_index(), too_large past 256 MiB, and io_error.
  static Result<IndexFile> open(UniqueFd fd);

  const LeaseIndex& index() const noexcept { return index_; }
  /// Reads and parses what was put off. Only once. Errors: as open().
  Result<IndexTensors> take_tensors();

 private:
  explicit IndexFile(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<void> read_to(std::uint64_t end);
  Result<IndexTensors> read_rest();
  void read_no_more();

  UniqueFd fd_;
  std::uint64_t size_ = 0;
  std::uint64_t read_ = 0;  // of the file
  std::string text_;        // what was read and not parsed
  LeaseIndex index_;
  std::optional<IndexTensors> tensors_;  // where they were not put off
};

}  // namespace andiron::client
