// SPDX-License-Identifier: MIT
#include "agent/core/event_log.hpp"

#include <utility>

namespace andiron::core {

void EventLog::append(probe::Event event) {
  event.seq = next_++;
  events_.push_back(std::move(event));
  if (events_.size() > kCapacity) events_.pop_front();
  if (follower_) follower_(events_.back());
}

std::vector<const probe::Event*> EventLog::after(std::uint64_t seq) const {
  std::vector<const probe::Event*> found;
  for (const probe::Event& event : events_) {
    if (event.seq > seq) found.push_back(&event);
  }
  return found;
}

std::uint64_t EventLog::last_before(WallTime time) const {
  std::uint64_t seq = events_.empty() ? 0 : events_.front().seq - 1;
  for (const probe::Event& event : events_) {
    if (event.time < time) seq = event.seq;
  }
  return seq;
}

}  // namespace andiron::core
