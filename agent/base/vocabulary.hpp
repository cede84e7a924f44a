// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string_view>

namespace andiron {

/// Where weights are. `storage` is everywhere; it is no tier to ask for.
enum class Tier { page_cache, pinned_ram, vram };

/// How firmly the page-cache tier keeps pages, weakest first: `cached` populated only; `mapped`
/// populated and mapped, which survives FADV_DONTNEED, drop_caches and mild pressure; `protected_`
/// charged to Andiron's cgroup under memory.low; `locked` mlocked.
enum class Hold { cached, mapped, protected_, locked };

/// Lowest first.
enum class Priority { background, batch, normal, interactive, critical };

enum class IoClass { idle, best_effort };

/// What a model is now, as the API calls it.
enum class ModelState { cold, warming, partial, warm, stale, missing, error };

// The names that configuration and API use: "page-cache", "locked", ...
std::string_view to_string(Tier tier) noexcept;
std::string_view to_string(Hold hold) noexcept;
std::string_view to_string(Priority priority) noexcept;
std::string_view to_string(IoClass io_class) noexcept;
std::string_view to_string(ModelState state) noexcept;

std::optional<Tier> parse_tier(std::string_view name) noexcept;
std::optional<Hold> parse_hold(std::string_view name) noexcept;
std::optional<Priority> parse_priority(std::string_view name) noexcept;
std::optional<IoClass> parse_io_class(std::string_view name) noexcept;

}  // namespace andiron
