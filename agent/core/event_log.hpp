// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "agent/probe/event.hpp"

namespace andiron::core {

/// What happened lately, numbered from 1. Thread: the control loop's. Bounded: the oldest go.
class EventLog {
 public:
  /// A day of a busy box.
  static constexpr std::size_t kCapacity = 4096;
  /// Names come over the socket, 4 KiB each, and all events may be one answer.
  static constexpr std::size_t kMaxText = 1024 * 1024;

  void append(probe::Event event);

  /// Events with a number above `seq`, oldest first.
  std::vector<const probe::Event*> after(std::uint64_t seq) const;
  /// The number of the last event before `time`: what after() takes to start from there.
  std::uint64_t last_before(WallTime time) const;
  std::uint64_t last() const noexcept { return next_ - 1; }

  /// Called with each event as it is appended.
  void on_append(std::function<void(const probe::Event&)> follower) {
    follower_ = std::move(follower);
  }

 private:
  std::deque<probe::Event> events_;
  std::size_t text_ = 0;  // bytes in events_
  std::uint64_t next_ = 1;
  std::function<void(const probe::Event&)> follower_;
};

}  // namespace andiron::core
