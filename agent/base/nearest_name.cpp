// SPDX-License-Identifier: MIT
#include "agent/base/nearest_name.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace andiron {
namespace {

// Longer than every name that we know by far, and bounds the work on hostile ones.
constexpr std::size_t kLongest = 40;

char folded(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '_' ? '-' : c;
}

/// Optimal string alignment: each letter takes part in one edit at most.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  using Row = std::array<std::size_t, kLongest + 1>;
  Row before_last{};
  Row last{};
  for (std::size_t j = 0; j <= b.size(); ++j)
    last.at(j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    Row current{};
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      current.at(j) = std::min({last.at(j) + 1, current.at(j - 1) + 1,
                                last.at(j - 1) + (same ? std::size_t{0} : std::size_t{1})});
      const bool swapped = i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                           folded(a[i - 2]) == folded(b[j - 1]);
      if (swapped) current.at(j) = std::min(current.at(j), before_last.at(j - 2) + 1);
    }
    before_last = last;
    last = current;
  }
  return last.at(b.size());
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view name,
                                             std::span<const std::string_view> candidates) {
  if (name.empty() || name.size() > kLongest) return std::nullopt;
  std::size_t best = std::max<std::size_t>(1, name.size() / 3) + 1;
  std::optional<std::string_view> found;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t distance = edit_distance(name, candidate);
    // A name of which no letter is left is no misspelling of it.
    if (distance < best && distance < candidate.size()) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

}  // namespace andiron
