// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

namespace andiron::os {

/// What the kernel calls this boot: another id after each. nullopt where it does not say.
/// `proc_root` is for tests. Does not block.
std::optional<std::string> read_boot_id(const std::string& proc_root = "/proc");

}  // namespace andiron::os
