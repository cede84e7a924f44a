// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include "agent/catalog/model.hpp"

namespace andiron::catalog {

/// What `resolve` prints:
/// {"source","files":[{"path","bytes","dev","ino"}],"bytes","tensors":[{"name",
/// "dtype","shape","file","offset","bytes"}],"also":[path...],"notes":[...]}. "files" are weights
/// and companions alike and "bytes" is their sum; "also" names those that are companions; a
/// tensor's "file" is a path.
std::string to_json(const Resolved& resolved);

/// Appends one tensor: {"name","dtype","shape",PLACE_KEY:place,"offset","bytes"}. `place` is JSON.
void write_tensor(std::string& out, const Tensor& tensor, std::string_view place_key,
                  std::string_view place);

}  // namespace andiron::catalog
