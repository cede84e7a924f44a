// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "agent/catalog/model.hpp"

namespace andiron::catalog {

/// Makes of each file's `name`, which is the path that it was found by, what it is called within
/// the model (ModelFile::name). Pure.
void name_files(std::vector<ModelFile>& files);

}  // namespace andiron::catalog
