// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/config/compile.hpp"
#include "agent/config/raw_config.hpp"

namespace andiron::config {

/// More than a person reads at once.
inline constexpr std::size_t kMaxDiagnostics = 100;

/// Collects what is wrong, in bounded memory however much it is.
class Diagnostics {
 public:
  explicit Diagnostics(std::string file_name) : file_name_(std::move(file_name)) {}

  void add(Position at, std::string message);

  /// The first kMaxDiagnostics by position, and then one that says how many more there are.
  std::vector<Diagnostic> take() &&;

 private:
  void prune();

  std::string file_name_;
  std::vector<Diagnostic> kept_;
  std::size_t dropped_ = 0;
};

/// For messages: in double quotes, escaped, and no longer than a line.
std::string in_quotes(std::string_view text);

/// `"a", "b" or "c"`.
std::string one_of(const std::vector<std::string_view>& names);

}  // namespace andiron::config
