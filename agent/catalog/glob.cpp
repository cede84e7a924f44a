// SPDX-License-Identifier: MIT
#include "agent/catalog/glob.hpp"

#include <cstddef>

namespace andiron::catalog {
namespace {

/// Matches the element of `pattern` at `at` (no *) with `c`, and moves `at` behind the element.
bool match_one(std::string_view pattern, std::size_t& at, char c) noexcept {
  const char head = pattern[at++];
  if (head == '?') return true;
  if (head == '\\' && at < pattern.size()) return pattern[at++] == c;
  if (head != '[') return head == c;
  std::size_t i = at;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (bool first = true; i < pattern.size(); first = false) {
    if (pattern[i] == ']' && !first) {
      at = i + 1;
      return found != negated;
    }
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found |= pattern[i] <= c && c <= pattern[i + 2];
      i += 3;
    } else {
      found |= pattern[i++] == c;
    }
  }
  return c == '[';  // Never closed: an ordinary character.
}

}  // namespace

bool has_glob_characters(std::string_view text) noexcept {
  return text.find_first_of("*?[") != std::string_view::npos;
}

bool glob_match(std::string_view pattern, std::string_view name) noexcept {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // the pattern behind the last *
  std::size_t star_end = 0;                   // how far the last * reaches now
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_end = n;
      continue;
    }
    if (p < pattern.size() && match_one(pattern, p, name[n])) {
      ++n;
      continue;
    }
    if (star == std::string_view::npos) return false;
    p = star;
    n = ++star_end;
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

}  // namespace andiron::catalog
