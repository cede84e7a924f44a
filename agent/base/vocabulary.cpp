// SPDX-License-Identifier: MIT
#include "agent/base/vocabulary.hpp"

#include <array>
#include <cstddef>

namespace andiron {
namespace {

// In the order of the enums.
constexpr std::array<std::string_view, 3> kTiers{"page-cache", "pinned-ram", "vram"};
constexpr std::array<std::string_view, 4> kHolds{"cached", "mapped", "protected", "locked"};
constexpr std::array<std::string_view, 5> kPriorities{"background", "batch", "normal",
                                                      "interactive", "critical"};
constexpr std::array<std::string_view, 2> kIoClasses{"idle", "best-effort"};
constexpr std::array<std::string_view, 7> kStates{"cold",  "warming", "partial", "warm",
                                                  "stale", "missing", "error"};

template <class Enum, std::size_t N>
std::optional<Enum> find(const std::array<std::string_view, N>& names,
                         std::string_view name) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Tier tier) noexcept { return kTiers[static_cast<std::size_t>(tier)]; }
std::string_view to_string(Hold hold) noexcept { return kHolds[static_cast<std::size_t>(hold)]; }
std::string_view to_string(Priority priority) noexcept {
  return kPriorities[static_cast<std::size_t>(priority)];
}
std::string_view to_string(IoClass io_class) noexcept {
  return kIoClasses[static_cast<std::size_t>(io_class)];
}
std::string_view to_string(ModelState state) noexcept {
  return kStates[static_cast<std::size_t>(state)];
}

std::optional<Tier> parse_tier(std::string_view name) noexcept { return find<Tier>(kTiers, name); }
std::optional<Hold> parse_hold(std::string_view name) noexcept { return find<Hold>(kHolds, name); }
std::optional<Priority> parse_priority(std::string_view name) noexcept {
  return find<Priority>(kPriorities, name);
}
std::optional<IoClass> parse_io_class(std::string_view name) noexcept {
  return find<IoClass>(kIoClasses, name);
}

}  // namespace andiron
