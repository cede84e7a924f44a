// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace andiron::os {

/// The small text files of /proc and /sys. Blocks: not on a disk.

/// The whole file, which says nothing of its size beforehand. Errors: open's and read's own;
/// too_large past `limit`, which bounds what a strange mount over /proc could make us allocate.
Result<std::string> read_text(const std::string& path, std::size_t limit = 4U << 20);

/// The file without the spaces and newlines around it; nullopt when it cannot be read.
std::optional<std::string> read_word(const std::string& path);
/// The same as a decimal number; nullopt too when it is none.
std::optional<std::uint64_t> read_number(const std::string& path);

/// All of `text` (spaces around it aside) as an unsigned number.
std::optional<std::uint64_t> parse_number(std::string_view text, int base = 10);
std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
/// Fields with any number of spaces or tabs between them.
std::vector<std::string_view> fields(std::string_view line);

}  // namespace andiron::os
