// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/config/settings.hpp"

namespace andiron::config {

/// What is wrong with a config, and where. `to_string` gives "file:line:column: message".
struct Diagnostic {
  std::string file;
  std::uint32_t line = 0;  // from 1
  std::uint32_t column = 0;
  std::string message;
  std::string to_string() const;
};

/// Either the settings, or everything that is wrong with the text in one go, in order of position.
struct Compiled {
  Settings settings;
  std::vector<Diagnostic> errors;  // empty when settings are good
  bool ok() const noexcept { return errors.empty(); }
};

/// TOML text to Settings: syntax, unknown keys (with the nearest known name), types, ranges,
/// duplicates. Pure: touches no file. Bounded: 1 MiB of text, 1,000 models.
Compiled compile(std::string_view text, const std::string& file_name);

/// Reads and compiles a file. A file that cannot be read is one diagnostic at line 0. Blocks.
Compiled compile_file(const std::string& path);

}  // namespace andiron::config
