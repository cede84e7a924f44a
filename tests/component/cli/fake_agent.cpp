// SPDX-License-Identifier: MIT
#include "tests/component/cli/fake_agent.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace andiron::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;  // only a test that fails waits that long

SeenRequest read_request(int fd) {
  std::string all;
  std::size_t head = std::string::npos;
  std::size_t length = 0;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    all.append(buffer, static_cast<std::size_t>(got));
    if (head == std::string::npos) {
      head = all.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      head += 4;
      const std::size_t field = all.find("Content-Length: ");
      if (field < head) length = std::strtoul(all.c_str() + field + 16, nullptr, 10);
    }
    if (all.size() >= head + length) break;
  }
  if (head == std::string::npos) return {};
  const std::size_t line = all.find("\r\n");
  return {all.substr(0, line), all.substr(line + 2, head - line - 2), all.substr(head)};
}

}  // namespace

void Peer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Peer::send_slowly(std::string_view bytes) {
  for (const char c : bytes)
    send({&c, 1});
}

void Peer::send_chunk(std::string_view bytes) {
  send(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

void Peer::begin_chunked(int status, std::string_view type) {
  send(fmt::format("HTTP/1.1 {} X\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
                   status, type));
}

void Peer::end_chunks() { send("0\r\n\r\n"); }

void Peer::respond(int status, std::string_view body) {
  send(
      fmt::format("HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                  status, body.size(), body));
}

void Peer::wait_for_hang_up() {
  pollfd wait{fd_, POLLRDHUP, 0};
  ::poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
}

FakeAgent::FakeAgent(Script script) : script_(std::move(script)) {
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  folder_ = "/tmp/andiron-cli-XXXXXX";
  if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp " + folder_);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (::bind(listener_.get(), generic, sizeof address) != 0 || ::listen(listener_.get(), 8) != 0) {
    throw std::runtime_error("listen on " + path);
  }
  thread_ = std::thread([this] { serve(); });
}

FakeAgent::~FakeAgent() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
  for (std::thread& handler : handlers_)
    handler.join();
  ::unlink(socket().c_str());
  ::rmdir(folder_.c_str());
}

void FakeAgent::serve() {
  while (true) {
    pollfd wait[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    ::poll(wait, 2, -1);
    if (wait[1].revents != 0) return;
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) handlers_.emplace_back([this, fd] { handle(fd); });
  }
}

void FakeAgent::handle(int fd) {
  const UniqueFd connection(fd);
  const SeenRequest request = read_request(fd);
  {
    const std::lock_guard lock(mutex_);
    seen_.push_back(request);
  }
  changed_.notify_all();
  Peer peer(fd);
  script_(request, peer);
}

std::vector<SeenRequest> FakeAgent::seen(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [&] { return seen_.size() >= count; });
  return seen_;
}

}  // namespace andiron::testing
