// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::core {

/// Where the machine's agent has it; one that is told another folder is for a try or a test.
inline constexpr const char* kMachineRuntimeDir = "/run/andiron";

/// The runtime folder, owned by this process until it ends, however it ends: the kernel drops the
/// lock of a killed agent, so that what lies there (its socket) may be replaced.
class RuntimeDir {
 public:
  /// Makes the folder (0755) and takes its lock. Errors: already_running, and those of mkdir.
  static Result<RuntimeDir> open(const std::string& path);

  /// False when somebody removed or replaced the folder: another agent may own the new one.
  bool in_place() const noexcept;

  const std::string& path() const noexcept { return path_; }
  std::string control_socket() const { return path_ + "/control.sock"; }
  std::string lease_socket() const { return path_ + "/lease.sock"; }

 private:
  RuntimeDir(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;
};

/// Makes a folder and those above it. Blocks.
Result<void> make_folder(const std::string& path, unsigned mode);

}  // namespace andiron::core
