// SPDX-License-Identifier: MIT
#include "agent/core/doctor.hpp"

#include <fmt/format.h>

#include "agent/os/probe_os.hpp"
#include "agent/stream/read_backend.hpp"

namespace andiron::core {

std::vector<os::Capability> find_local_capabilities(const std::string& scratch_dir) {
  std::vector<os::Capability> found = os::probe_os(scratch_dir);
  found.push_back(stream::probe_uring());
  return found;
}

std::vector<os::Capability> agent_capabilities(bool group_missing, const std::string& socket) {
  using State = os::Capability::State;
  std::vector<os::Capability> found;
  if (group_missing) {
    found.push_back({"control-socket", State::degraded,
                     fmt::format("there is no group \"andiron\", or it could not be given the "
                                 "socket: only root may use {}",
                                 socket),
                     "groupadd --system andiron, add its users, and restart the agent"});
  } else {
    found.push_back({"control-socket", State::on,
                     fmt::format("members of group andiron may use {}", socket), ""});
  }
  constexpr const char* kNotYet = "not in this version";
  for (const char* name : {"vram", "ebpf"}) {
    found.push_back({name, State::off, kNotYet, ""});
  }
  return found;
}

}  // namespace andiron::core
