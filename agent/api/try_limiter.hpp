// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <map>

#include "agent/base/clock.hpp"
#include "agent/base/ip_address.hpp"

namespace andiron::api {

/// Counts failed tries by network (see IpAddress::network). Bounded: when it is full, the one whose
/// minute began first goes, which only ever lets somebody try more. Thread: one. Never blocks.
class TryLimiter {
 public:
  /// So many a minute are a person with an old password, and nothing for one who guesses.
  static constexpr std::size_t kTries = 10;
  static constexpr std::chrono::seconds kWindow{60};
  static constexpr std::size_t kMaxNetworks = 256;

  /// Zero, or how long this peer has to wait before it may fail again.
  std::chrono::seconds wait(const IpAddress& peer, SteadyTime now) const;
  /// One more. True when it was the one that filled the measure.
  bool failed(const IpAddress& peer, SteadyTime now);
  std::size_t networks() const noexcept { return tries_.size(); }

 private:
  struct Tries {
    std::size_t count = 0;
    SteadyTime since;
  };
  void make_room(SteadyTime now);

  std::map<IpAddress, Tries> tries_;
};

}  // namespace andiron::api
