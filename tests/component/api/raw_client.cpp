// SPDX-License-Identifier: MIT
#include "tests/component/api/raw_client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace andiron::api {

RawClient::RawClient(const std::string& path)
    : RawClient(path, UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))) {}

RawClient::RawClient(const std::string& path, UniqueFd fd) : fd_(std::move(fd)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  connect(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

RawClient::RawClient(const Endpoint& at) {
  sockaddr_storage address{};
  const socklen_t size = at.store(address);
  fd_ = UniqueFd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  connect(reinterpret_cast<const sockaddr*>(&address), size);
}

void RawClient::connect(const sockaddr* address, socklen_t size) {
  const timeval patience{20, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  EXPECT_EQ(::connect(fd_.get(), address, size), 0) << std::strerror(errno);
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::fill() {
  char bytes[4096];
  const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

std::string RawClient::take(std::size_t bytes) {
  while (buffer_.size() < bytes && fill()) {
  }
  std::string taken = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return taken;
}

std::string RawClient::read_head() {
  std::size_t end = std::string::npos;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return "";
  }
  return take(end + 4);
}

std::string RawClient::read_chunk() {
  std::size_t end = std::string::npos;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return "";
  }
  const std::size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
  take(end + 2);
  std::string chunk = take(size);
  take(2);
  return chunk;
}

Answer RawClient::read_answer() {
  Answer answer;
  answer.head = read_head();
  if (answer.head.size() < 12) return answer;
  answer.status = static_cast<unsigned>(std::strtoul(answer.head.c_str() + 9, nullptr, 10));
  const std::size_t length = answer.head.find("Content-Length: ");
  if (length != std::string::npos) {
    answer.body = take(std::strtoul(answer.head.c_str() + length + 16, nullptr, 10));
  } else if (answer.head.find("chunked") != std::string::npos) {
    for (std::string chunk = read_chunk(); !chunk.empty(); chunk = read_chunk())
      answer.body += chunk;
  }
  return answer;
}

std::string RawClient::read_to_end() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

bool RawClient::has_input() const {
  char byte = 0;
  return ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

void RawClient::half_close() { ::shutdown(fd_.get(), SHUT_WR); }

}  // namespace andiron::api
