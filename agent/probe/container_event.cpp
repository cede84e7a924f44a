// SPDX-License-Identifier: MIT
#include "agent/probe/container_event.hpp"

#include <algorithm>

namespace andiron::probe {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_container_word(std::string_view text) noexcept {
  constexpr std::string_view kMarks = "_.:@-";
  return !text.empty() && text.size() <= kMaxContainerWord &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  kMarks.find(c) != std::string_view::npos;
         });
}

bool is_container_id(std::string_view text) noexcept {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace andiron::probe
