// SPDX-License-Identifier: MIT
#include "agent/core/pressure_gate.hpp"

namespace andiron::core {

bool PressureGate::enter(Phase phase, SteadyTime now) {
  phase_ = phase;
  since_ = now;
  return phase != Phase::talk;
}

bool PressureGate::tick(SteadyTime now, std::optional<std::uint64_t> stall_us) {
  if (!stall_us) return enter(Phase::talk, now);
  const auto elapsed = now - since_;
  switch (phase_) {
    case Phase::idle:
      quiet_since_ = now;
      stall_at_listen_ = *stall_us;
      return enter(Phase::listen, now);
    case Phase::talk:
      if (elapsed < kTalk) return false;
      quiet_since_ = now;
      return enter(Phase::settle, now);
    case Phase::settle:
      if (elapsed < kSettle) return true;
      stall_at_listen_ = *stall_us;
      return enter(Phase::listen, now);
    case Phase::listen: {
      if (elapsed < kListen) return true;
      const double stalled = static_cast<double>(*stall_us - stall_at_listen_);
      const double share = stalled / std::chrono::duration<double, std::micro>(elapsed).count();
      const bool enough = now - quiet_since_ >= kLongestWait;
      return enter(share > kHigh && !enough ? Phase::wait : Phase::talk, now);
    }
    case Phase::wait:
      if (elapsed < kWait) return true;
      stall_at_listen_ = *stall_us;
      return enter(Phase::listen, now);
  }
  return false;
}

}  // namespace andiron::core
