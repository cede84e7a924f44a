// SPDX-License-Identifier: MIT
#include "tests/component/probe/scripted_dockerd.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace andiron::testing {
namespace {

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the other side has gone
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string chunk(const std::string& bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace

ScriptedDockerd::ScriptedDockerd(std::string path, Manner manner)
    : path_(std::move(path)), manner_(manner) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) throw std::runtime_error("too long: " + path_);
  std::memcpy(address.sun_path, path_.data(), path_.size());
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 64) != 0) {
    throw std::runtime_error("cannot listen on " + path_);
  }
  thread_ = std::thread([this] { serve(); });
}

ScriptedDockerd::~ScriptedDockerd() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
  ::unlink(path_.c_str());
}

void ScriptedDockerd::serve() {
  while (true) {
    std::array<pollfd, 2> fds{{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) return;
    UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client) answer(std::move(client));
  }
}

void ScriptedDockerd::answer(UniqueFd client) {
  std::string request;
  std::array<char, 4096> buffer;
  while (!request.ends_with("\r\n\r\n")) {
    const ssize_t got = ::recv(client.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return;
    request.append(buffer.data(), static_cast<std::size_t>(got));
  }
  const std::size_t begin = request.find(' ') + 1;
  const std::string target = request.substr(begin, request.find(' ', begin) - begin);
  const std::lock_guard lock(mutex_);
  requests_.push_back(target);
  switch (manner_) {
    case Manner::silent:
      ignored_.push_back(std::move(client));
      return;
    case Manner::garbage:
      return send_all(client.get(), "\xff\xfe\n\n<html>no</html>\r\n\r\n");
    case Manner::refusing:
      return send_all(client.get(), "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}");
    default:
      break;
  }
  if (target.starts_with("/events")) {
    send_all(client.get(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    streams_.push_back(std::move(client));
    return;
  }
  int status = 200;
  const std::string body = body_for(target, status);
  send_all(client.get(),
           fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body));
}

std::string ScriptedDockerd::body_for(const std::string& target, int& status) {
  if (target == "/containers/json") {
    if (manner_ == Manner::endless_list) return "[" + std::string(9U << 20, ' ') + "]";
    std::string body;
    for (const auto& [id, container] : containers_) {
      if (container.pid == 0) continue;
      body += fmt::format("{}{{\"Id\":\"{}\",\"Names\":[\"/{}\"]}}", body.empty() ? "" : ",", id,
                          container.name);
    }
    return "[" + body + "]";
  }
  for (const auto& [id, container] : containers_) {
    if (target == "/containers/" + id + "/json") {
      return fmt::format(R"({{"Id":"{}","Name":"/{}","State":{{"Pid":{},"StartedAt":"{}"}}}})", id,
                         container.name, container.pid, container.started_at);
    }
  }
  status = 404;
  return R"({"message":"no such container"})";
}

void ScriptedDockerd::set(const std::string& id, Container container) {
  const std::lock_guard lock(mutex_);
  containers_[id] = std::move(container);
}

void ScriptedDockerd::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  containers_.erase(id);
}

void ScriptedDockerd::behave(Manner manner) {
  const std::lock_guard lock(mutex_);
  manner_ = manner;
  ignored_.clear();
}

void ScriptedDockerd::say(const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  for (const UniqueFd& stream : streams_)
    send_all(stream.get(), chunk(bytes));
}

void ScriptedDockerd::say_event(const std::string& action, const std::string& id,
                                const std::string& name, const std::string& time_ns) {
  say(fmt::format(R"({{"Type":"container","Action":"{}","Actor":{{"ID":"{}","Attributes":)"
                  R"({{"name":"{}"}}}},"timeNano":{}}})"
                  "\n",
                  action, id, name, time_ns));
}

void ScriptedDockerd::hang_up() {
  const std::lock_guard lock(mutex_);
  streams_.clear();
}

std::size_t ScriptedDockerd::subscribers() {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

std::vector<std::string> ScriptedDockerd::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

}  // namespace andiron::testing
