// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace andiron::os {

/// Something the machine may or may not let Andiron do, found by use and never by version.
/// `doctor` prints it; nothing that is off or degraded is an error.
struct Capability {
  enum class State { on, degraded, off };
  std::string name;
  State state = State::off;
  std::string reason;  // in words, with the number or errno that decided it
  std::string remedy;  // what the owner of the machine can do; empty when there is nothing
};

}  // namespace andiron::os
