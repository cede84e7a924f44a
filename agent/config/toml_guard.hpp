// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string_view>

#include "agent/config/raw_config.hpp"

namespace andiron::config {

/// Parts of one dotted key: our own tables are two deep.
inline constexpr unsigned kMaxKeyParts = 16;

/// What the parser must not be given: bytes that are not UTF-8, NUL, dotted keys so long that the
/// tables they stand for would be torn down with as many recursive calls, and characters outside of
/// ASCII where it asks whether they are white space: its test for that (toml++ 3.3) runs into code
/// that it calls unreachable, for U+00E9 already. That is where TOML 1.0 has no use for one:
/// outside of quotes and comments, and after a backslash or the line break that it hides (where
/// TOML does allow one; no text of ours needs it).
std::optional<RawFault> find_unparsable(std::string_view text);

}  // namespace andiron::config
