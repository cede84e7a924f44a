// SPDX-License-Identifier: MIT
#include "agent/core/event_log.hpp"

#include <utility>

namespace andiron::core {

namespace {

std::size_t text_of(const probe::Event& event) noexcept {
  return event.model.size() + event.file.size() + event.detail.size();
}

}  // namespace

void EventLog::append(probe::Event event) {
  event.seq = next_++;
  text_ += text_of(event);
  events_.push_back(std::move(event));
  while (events_.size() > kCapacity || (text_ > kMaxText && events_.size() > 1)) {
    text_ -= text_of(events_.front());
    events_.pop_front();
  }
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
