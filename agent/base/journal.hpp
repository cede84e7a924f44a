// SPDX-License-Identifier: MIT
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <span>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

/// systemd's journal, by its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL).
/// sd_journal_send(3) speaks it too, but waits while the journal's queue is full, and goes to one
/// path only.
namespace andiron::journal {

/// Longer values are cut: a path, which a model may be named after, is no longer.
inline constexpr std::size_t kMaxValue = 4096;
/// The sentence of a record, which may quote two such names with every byte escaped.
inline constexpr std::size_t kMaxMessage = 16 * 1024;

struct Field {
  std::string_view name;  // A-Z, 0-9 and _, as the journal takes them: a constant of the program
  std::string_view value;
};

/// One record, as the datagram that the journal takes. What is empty is left out. A value may hold
/// any bytes: none of them can end its field or begin another. Pure.
std::string encode(std::span<const Field> fields);

/// Is that descriptor the journal's, as $JOURNAL_STREAM ("DEVICE:INODE") says of stderr? It is
/// inherited by programs whose stderr has long been another one.
bool is_stream(std::string_view journal_stream, int fd) noexcept;

/// Where the journal listens. Thread: any. Blocks: never. Owns: a socket, that is not connected: a
/// journal that started anew has another one there.
class Socket {
 public:
  static constexpr const char* kPath = "/run/systemd/journal/socket";

  /// Errors: too_large for a path, and socket's own. Nobody has to listen there yet.
  static Result<Socket> create(std::string_view path);

  /// False: nobody listens, or there is no room.
  bool send(std::string_view record) const noexcept;

 private:
  Socket(UniqueFd fd, const sockaddr_un& address) : fd_(std::move(fd)), address_(address) {}

  UniqueFd fd_;
  sockaddr_un address_;
};

}  // namespace andiron::journal
