// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/file.hpp"

namespace andiron::lease {

/// One copy of a lease: a file of the model.
struct LeasedFile {
  std::string name;           // within the model: catalog::ModelFile::name
  os::FileIdentity identity;  // of the source
  bool companion = false;     // its tensors, if it has any, are not the model's
};

/// What the index of a lease is made from.
struct IndexRequest {
  std::string model;
  std::uint64_t generation = 0;
  std::vector<LeasedFile> files;
  std::vector<UniqueFd> copies;  // of these, open to read: for their headers
};

/// The index that comes with a lease, as JSON in a memfd that nobody can change any more: seals
/// against writing, growing, shrinking and further seals. Segment i is file i, whole; its `fd` is
/// its place behind the index. Blocks: reads headers, from memory. Errors: a header's that is no
/// longer what it was when the model was resolved; too_large; memfd_create's.
Result<UniqueFd> make_index(const IndexRequest& request);

/// The same memfd, opened anew and to read: nobody shares a file offset. Errors: open(2)'s.
Result<UniqueFd> open_index(const UniqueFd& index);

}  // namespace andiron::lease
