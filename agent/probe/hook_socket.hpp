// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::probe {

/// The datagram socket of container hooks: one report a datagram. Mode 0600, and of each datagram
/// the kernel says who sent it: only root, and whoever the agent runs as, is listened to.
/// Thread: one. Never blocks. Owns: the socket, and its name as long as that leads to it.
class HookSocket {
 public:
  /// Replaces what a killed agent left. Errors: EEXIST for something that is no socket, and bind's.
  static Result<HookSocket> create(const std::string& path);
  HookSocket(HookSocket&& other) noexcept;
  HookSocket& operator=(HookSocket&&) = delete;
  ~HookSocket();

  int fd() const noexcept { return fd_.get(); }
  /// False when the name was removed or leads elsewhere now: then nobody can report here.
  bool in_place() const noexcept;
  /// What came; at most kMaxAtOnce, and fd() stays readable while there is more.
  std::vector<std::string> drain();
  /// Datagrams of strangers, and those that are too long.
  std::uint64_t dropped() const noexcept { return dropped_; }

  static constexpr int kMaxAtOnce = 64;

 private:
  HookSocket(UniqueFd fd, std::string path, dev_t device, ino_t inode)
      : fd_(std::move(fd)), path_(std::move(path)), device_(device), inode_(inode) {}

  UniqueFd fd_;
  std::string path_;
  dev_t device_ = 0;  // of the name
  ino_t inode_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace andiron::probe
