// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace andiron::testing {

/// Runs a program with its output on ours; its exit status, or 127 when it cannot be started.
int run(const std::vector<std::string>& command);
/// What a program prints; empty when it fails.
std::string output_of(const std::vector<std::string>& command);
bool has_program(const std::string& name);

/// A mount, taken away at the end.
class MountGuard {
 public:
  MountGuard() = default;
  /// `arguments` of mount(8) before the mount point, which is made.
  MountGuard(std::vector<std::string> arguments, std::filesystem::path point);
  ~MountGuard();
  MountGuard(MountGuard&& other) noexcept;
  MountGuard& operator=(MountGuard&&) = delete;

  bool ok() const { return mounted_; }
  const std::filesystem::path& point() const { return point_; }

 private:
  std::filesystem::path point_;
  bool mounted_ = false;
};

/// A sparse image of `bytes` with a file system of `mkfs`, mounted through a loop device that goes
/// with its mount.
MountGuard loop_mount(const std::filesystem::path& dir, const std::string& name,
                      std::vector<std::string> mkfs, std::uint64_t bytes,
                      const std::string& options = "");

}  // namespace andiron::testing
