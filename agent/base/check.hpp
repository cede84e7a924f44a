// SPDX-License-Identifier: MIT
#pragma once

namespace andiron::detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;
}

/// Ends the process when an invariant of ours is broken; always on. Never for bad input.
#define CHECK(expression)              \
  ((expression) ? static_cast<void>(0) \
                : ::andiron::detail::check_failed(#expression, __FILE__, __LINE__))
