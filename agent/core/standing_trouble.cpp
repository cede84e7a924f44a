// SPDX-License-Identifier: MIT
#include "agent/core/standing_trouble.hpp"

#include <fmt/format.h>

#include <utility>

#include "agent/base/log.hpp"

namespace andiron::core {

void StandingTrouble::see(const Result<void>& outcome) {
  const std::string now = outcome ? "" : outcome.error().message();
  if (now == std::exchange(said_, now)) return;
  if (outcome) {
    log::info("{}", over_);
  } else {
    world_.note_degraded(fmt::format("{}: {}", trouble_, now));
  }
}

}  // namespace andiron::core
