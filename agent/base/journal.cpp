// SPDX-License-Identifier: MIT
#include "agent/base/journal.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace andiron::journal {
namespace {

/// The size of a binary field: 64 bits, little-endian on every machine.
void append_size(std::string& record, std::uint64_t size) {
  for (int shift = 0; shift < 64; shift += 8)
    record += static_cast<char>((size >> shift) & 0xff);
}

}  // namespace

std::string encode(std::span<const Field> fields) {
  std::string record;
  for (const Field& field : fields) {
    const std::size_t longest = field.name == "MESSAGE" ? kMaxMessage : kMaxValue;
    const std::string_view value = field.value.substr(0, longest);
    if (value.empty()) continue;
    record += field.name;
    if (value.find('\n') == std::string_view::npos) {
      record += '=';
    } else {
      record += '\n';
      append_size(record, value.size());
    }
    record += value;
    record += '\n';
  }
  return record;
}

bool is_stream(std::string_view journal_stream, int fd) noexcept {
  struct stat status {};
  if (journal_stream.empty() || ::fstat(fd, &status) != 0) return false;
  return journal_stream == fmt::format("{}:{}", status.st_dev, status.st_ino);
}

Result<Socket> Socket::create(std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return make_error(Errc::too_large, "the path of the journal's socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return make_system_error(errno, "a socket for the journal");
  return Socket(std::move(fd), address);
}

bool Socket::send(std::string_view record) const noexcept {
  ssize_t sent = 0;
  do {
    sent = ::sendto(fd_.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(record.size());
}

}  // namespace andiron::journal
