// SPDX-License-Identifier: MIT
#include "agent/core/jobs.hpp"

#include <algorithm>

namespace andiron::core {

std::string_view to_string(JobState state) noexcept {
  switch (state) {
    case JobState::resolving:
      return "resolving";
    case JobState::running:
      return "running";
    case JobState::done:
      return "done";
    case JobState::failed:
      return "failed";
    case JobState::cancelled:
      return "cancelled";
  }
  return "failed";
}

Job& JobTable::add() {
  prune();
  auto job = std::make_unique<Job>();
  job->id = next_++;
  return *jobs_.emplace(job->id, std::move(job)).first->second;
}

Job* JobTable::find(std::uint64_t id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

void JobTable::prune() {
  std::size_t ended = jobs_.size() - running();
  for (auto it = jobs_.begin(); it != jobs_.end() && ended > kKept;) {
    if (it->second->ended()) {
      it = jobs_.erase(it);
      --ended;
    } else {
      ++it;
    }
  }
}

std::size_t JobTable::running() const {
  return static_cast<std::size_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& entry) { return !entry.second->ended(); }));
}

}  // namespace andiron::core
