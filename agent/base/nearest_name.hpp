// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace andiron {

/// The candidate that a person most likely meant by `name`: fewest letters added, left out, changed
/// or swapped, where case and - against _ do not count. nullopt where none is near: further than a
/// third of the name's length (but at least one letter). The first wins a draw.
std::optional<std::string_view> nearest_name(std::string_view name,
                                             std::span<const std::string_view> candidates);

}  // namespace andiron
