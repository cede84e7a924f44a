// SPDX-License-Identifier: MIT
#include "agent/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace andiron::detail {

void check_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "andiron: %s:%d: broken invariant: %s\n", file, line, expression);
  std::abort();
}

}  // namespace andiron::detail
