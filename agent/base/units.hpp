// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace andiron {

/// A count of bytes that came from, or goes to, a person. Offsets and lengths of a file that only
/// the code sees are plain std::uint64_t.
struct Bytes {
  std::uint64_t count = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
};

inline constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// "24GiB", "512 MB", "0", "1048576": a whole or decimal number and an optional unit, powers of
/// 1024 for KiB/MiB/GiB/TiB (and K, M, G, T) and of 1000 for kB/MB/GB/TB. Letter case does not
/// matter. Errors: bad_config with what was wrong; overflow is an error.
Result<Bytes> parse_bytes(std::string_view text);

/// "30m", "1h30m", "250ms", "5s", "2d": whole numbers, each with a unit of ms, s, m, h or d.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// For people: "2.0 GiB", "512 KiB", "17 B".
std::string format_bytes(std::uint64_t count);
/// For people: "1.2 s", "450 ms", "3m 20s".
std::string format_duration(std::chrono::milliseconds duration);

}  // namespace andiron
