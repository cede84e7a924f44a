// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/config/settings.hpp"

namespace andiron::config {

/// What is wrong with a config, and where. `to_string` gives "file:line:column: message", and
/// "file: message" at line 0, which is the whole file. The message is printable UTF-8: whatever it
/// quotes of the text is escaped and short.
struct Diagnostic {
  std::string file;
  std::uint32_t line = 0;    // from 1
  std::uint32_t column = 0;  // from 1, in code points
  std::string message;
  std::string to_string() const;
};

/// Either the settings, or everything that is wrong with the text in one go, in order of position:
/// 100 errors at most, and one more that says how many others there are. Of what is not TOML, only
/// the first is known. With errors the settings are the defaults.
struct Compiled {
  Settings settings;
  std::vector<Diagnostic> errors;  // empty when settings are good
  bool ok() const noexcept { return errors.empty(); }
};

/// TOML text to Settings: syntax, unknown keys (with the nearest known name), types, ranges,
/// duplicates. Pure: touches no file. Bounded: 1 MiB of text, 1,000 models. Where a size is wanted,
/// a whole number is bytes. Thread: any.
Compiled compile(std::string_view text, const std::string& file_name);

/// Reads and compiles a regular file; what is none, or cannot be read, is one diagnostic at line 0.
/// Thread: any. Blocks: as the file system does, but not on a FIFO or device.
Compiled compile_file(const std::string& path);

}  // namespace andiron::config
