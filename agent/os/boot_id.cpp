// SPDX-License-Identifier: MIT
#include "agent/os/boot_id.hpp"

#include "agent/os/text_file.hpp"

namespace andiron::os {

std::optional<std::string> read_boot_id(const std::string& proc_root) {
  constexpr std::size_t kLength = 36;  // of a UUID
  auto id = read_word(proc_root + "/sys/kernel/random/boot_id");
  if (!id || id->size() != kLength) return std::nullopt;
  if (id->find_first_not_of("0123456789abcdef-") != std::string::npos) return std::nullopt;
  return id;
}

}  // namespace andiron::os
