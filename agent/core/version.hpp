// SPDX-License-Identifier: MIT
#pragma once

namespace andiron::core {
inline constexpr const char* kVersion = ANDIRON_VERSION;
}
