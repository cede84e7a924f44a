// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace andiron::api {

/// The secret of `[http] token_file`. It has no way out of here: it is compared, never printed,
/// and no error tells a byte of it. Thread: any. Owns: a copy, wiped at the end.
class BearerToken {
 public:
  /// 16 letters and digits, chosen by chance, are 95 bits: past guessing.
  static constexpr std::size_t kMinSize = 16;
  static constexpr std::size_t kMaxSize = 512;

  /// What a token file holds: one token of the characters that RFC 6750 allows, white space around
  /// it aside. Errors: bad_config.
  static Result<BearerToken> parse(std::string_view text);

  /// From a file that nobody but its owner may read or write, and that belongs to root or to who
  /// runs the agent. Errors: bad_config, not_regular_file, and open's and read's own; each names
  /// the file. Blocks: as the file system does.
  static Result<BearerToken> read(const std::string& path);

  BearerToken(const BearerToken&) = default;
  BearerToken& operator=(const BearerToken&) = default;
  ~BearerToken();

  /// Takes the same time whatever is wrong with `given`, but for its length.
  bool matches(std::string_view given) const noexcept;
  friend bool operator==(const BearerToken& a, const BearerToken& b) noexcept {
    return a.matches(b.text());
  }

 private:
  BearerToken() = default;
  std::string_view text() const noexcept { return {bytes_.data(), size_}; }

  std::array<char, kMaxSize> bytes_{};  // zeros after the token
  std::size_t size_ = 0;
};

}  // namespace andiron::api
