// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "agent/catalog/model.hpp"

namespace andiron::catalog {

/// What `resolve` prints:
/// {"source","files":[{"path","bytes","dev","ino"}],"bytes","tensors":[{"name",
/// "dtype","shape","file","offset","bytes"}],"also":[path...],"notes":[...]}. "files" are weights
/// and companions alike and "bytes" is their sum; "also" names those that are companions; a
/// tensor's "file" is a path.
std::string to_json(const Resolved& resolved);

}  // namespace andiron::catalog
