// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "agent/config/diagnostics.hpp"
#include "agent/config/raw_config.hpp"
#include "agent/config/settings.hpp"

namespace andiron::config {

inline constexpr std::size_t kMaxModels = 1000;

/// The meaning of a parsed text. What it adds to `errors` makes the settings worthless.
Settings compile_tables(const RawTable& root, Diagnostics& errors);

/// Every key there is: "agent.allow_roots", "tenant.match.exe", ...
std::vector<std::string> known_keys();

}  // namespace andiron::config
