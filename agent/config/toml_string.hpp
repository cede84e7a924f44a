// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace andiron::config {

/// `text` as a TOML basic string, with its quotes: for whoever writes a config. Any bytes give
/// valid TOML; what is not UTF-8 becomes U+FFFD.
std::string to_toml_string(std::string_view text);

}  // namespace andiron::config
