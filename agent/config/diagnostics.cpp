// SPDX-License-Identifier: MIT
#include "agent/config/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "agent/config/toml_string.hpp"
#include "agent/config/utf8.hpp"

namespace andiron::config {

std::string Diagnostic::to_string() const {
  if (line == 0) return fmt::format("{}: {}", file, message);
  return fmt::format("{}:{}:{}: {}", file, line, column, message);
}

void Diagnostics::add(Position at, std::string message) {
  kept_.push_back({file_name_, at.line, at.column, std::move(message)});
  if (kept_.size() >= 10 * kMaxDiagnostics) prune();
}

/// Keeps one more than are shown: its place is where "more" begins.
void Diagnostics::prune() {
  std::stable_sort(kept_.begin(), kept_.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  if (kept_.size() > kMaxDiagnostics + 1) {
    dropped_ += kept_.size() - (kMaxDiagnostics + 1);
    kept_.resize(kMaxDiagnostics + 1);
  }
}

std::vector<Diagnostic> Diagnostics::take() && {
  prune();
  if (kept_.size() > kMaxDiagnostics) {
    kept_.back().message = fmt::format("... and {} more", dropped_ + 1);
  }
  return std::move(kept_);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 64;
  if (text.size() <= kShown) return to_toml_string(text);
  std::size_t end = 0;
  while (end < kShown) {
    const std::size_t length = utf8_length(text.substr(end));
    end += length == 0 ? 1 : length;
  }
  return to_toml_string(text.substr(0, end)) + "...";
}

std::string one_of(const std::vector<std::string_view>& names) {
  std::string result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) result += i + 1 == names.size() ? " or " : ", ";
    result += in_quotes(names[i]);
  }
  return result;
}

}  // namespace andiron::config
