// SPDX-License-Identifier: MIT
#include "agent/api/try_limiter.hpp"

#include <algorithm>

namespace andiron::api {

std::chrono::seconds TryLimiter::wait(const IpAddress& peer, SteadyTime now) const {
  const auto place = tries_.find(peer.network());
  if (place == tries_.end() || place->second.count < kTries) return {};
  const auto left = place->second.since + kWindow - now;
  return std::max(std::chrono::ceil<std::chrono::seconds>(left), std::chrono::seconds(0));
}

bool TryLimiter::failed(const IpAddress& peer, SteadyTime now) {
  const IpAddress network = peer.network();
  if (!tries_.contains(network)) make_room(now);
  Tries& tries = tries_[network];
  if (tries.count == 0 || now - tries.since >= kWindow) tries = {0, now};
  return ++tries.count == kTries;
}

void TryLimiter::make_room(SteadyTime now) {
  if (tries_.size() < kMaxNetworks) return;
  std::erase_if(tries_, [&](const auto& entry) { return now - entry.second.since >= kWindow; });
  if (tries_.size() < kMaxNetworks) return;
  tries_.erase(std::min_element(tries_.begin(), tries_.end(), [](const auto& a, const auto& b) {
    return a.second.since < b.second.since;
  }));
}

}  // namespace andiron::api
