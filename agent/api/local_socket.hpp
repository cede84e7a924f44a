// SPDX-License-Identifier: MIT
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <string>
#include <utility>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::api {

/// Who may connect, and what goes over it.
struct LocalSocketKind {
  int type = SOCK_STREAM;  // or SOCK_SEQPACKET
  bool everybody = false;  // 0666 instead of the group's 0660
};

/// The name and the listening end of a Unix socket. Its name goes away with it, unless somebody put
/// another file there, or somebody else made it.
/// Thread: one. Blocks: for a few calls on a local folder, at create().
class LocalSocket {
 public:
  /// See Server::listen. At no moment is there a socket that a stranger could connect to.
  static Result<LocalSocket> create(const std::string& path, const std::string& group,
                                    LocalSocketKind kind = {});
  /// See Server::adopt. The name stays its maker's: in_place() believes in it, and nobody here
  /// takes it away.
  static Result<LocalSocket> adopt(UniqueFd listening, const std::string& group);

  LocalSocket(LocalSocket&& other) noexcept;
  LocalSocket& operator=(LocalSocket&&) = delete;
  ~LocalSocket();

  /// Non-blocking and close-on-exec; whoever takes it closes it.
  UniqueFd take_fd() noexcept { return std::move(fd_); }
  bool group_missing() const noexcept { return group_missing_; }
  /// Does its name still lead to it? Where somebody removed or replaced it, no client comes.
  bool in_place() const noexcept;
  /// Changes whom it lets in; also of one that was adopted, whose mode its maker gave it.
  Result<void> let_in(bool everybody);

 private:
  LocalSocket() = default;

  UniqueFd fd_;
  std::string path_;   // of a name of ours; empty until bound, and in a moved-from one
  std::string named_;  // the path of either kind
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool group_missing_ = false;
};

}  // namespace andiron::api
