// SPDX-License-Identifier: MIT
//
// api_load SOCKET TARGET [CLIENTS [REQUESTS]]: how long a GET takes while CLIENTS (64) connections
// ask for it, each again as soon as it has its answer, REQUESTS (200) times. One thread and epoll,
// so that the clients' own scheduling does not hide the server's. Prints one line:
//   clients=64 requests=12800 p50_us=410 p99_us=900 max_us=1500 rps=150000
// Exit status 1 when an answer is not 200 or a connection breaks.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace {

using namespace andiron;
using Clock = std::chrono::steady_clock;

struct Client {
  UniqueFd fd;
  std::string input;
  Clock::time_point asked_at;
  std::size_t left = 0;  // answers still to come
};

std::optional<std::size_t> parse_count(std::string_view text) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count == 0) return std::nullopt;
  return count;
}

Result<UniqueFd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return make_error(Errc::bad_request, "the socket's path is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return make_system_error(errno, "socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return make_system_error(errno, "connect to " + path);
  return fd;
}

/// The size of the answer that starts the input, once all of it is there.
Result<std::optional<std::size_t>> whole_answer(const std::string& input) {
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const std::size_t head = input.find("\r\n\r\n");
  if (head == std::string::npos) return std::optional<std::size_t>();
  if (input.compare(0, 12, "HTTP/1.1 200") != 0)
    return make_error(Errc::bad_format, "the answer '" + input.substr(0, head) + "'");
  const std::size_t place = input.find(kLength);
  std::size_t length = 0;
  if (place == std::string::npos || place > head)
    return make_error(Errc::bad_format, "an answer without Content-Length");
  std::from_chars(input.data() + place + kLength.size(), input.data() + head, length);
  const std::size_t size = head + 4 + length;
  if (input.size() < size) return std::optional<std::size_t>();
  return std::optional<std::size_t>(size);
}

Result<void> ask(Client& client, const std::string& request) {
  client.asked_at = Clock::now();
  const ssize_t sent = ::send(client.fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size())) return make_system_error(errno, "send");
  return {};
}

/// Takes what has come; a whole answer is timed, and the next request sent.
Result<void> serve(Client& client, const std::string& request, std::vector<Clock::duration>& times,
                   std::size_t& open) {
  char bytes[65536];
  const ssize_t got = ::recv(client.fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (got == 0) return make_error(Errc::unavailable, "the server closed a connection");
  if (got < 0) return make_system_error(errno, "recv");
  client.input.append(bytes, static_cast<std::size_t>(got));
  const std::optional<std::size_t> size = TRY(whole_answer(client.input));
  if (!size) return {};
  times.push_back(Clock::now() - client.asked_at);
  client.input.erase(0, *size);
  if (--client.left == 0) {
    --open;
    return {};
  }
  return ask(client, request);
}

long long microseconds(Clock::duration time) {
  return static_cast<long long>(
      std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

void report(std::vector<Clock::duration> times, std::size_t clients, Clock::duration total) {
  std::sort(times.begin(), times.end());
  const auto rank = [&](std::size_t percent) { return times[(times.size() - 1) * percent / 100]; };
  std::printf("clients=%zu requests=%zu p50_us=%lld p99_us=%lld max_us=%lld rps=%.0f\n", clients,
              times.size(), microseconds(rank(50)), microseconds(rank(99)),
              microseconds(times.back()),
              static_cast<double>(times.size()) / std::chrono::duration<double>(total).count());
}

Result<void> load(const std::string& path, const std::string& target, std::size_t count,
                  std::size_t requests) {
  const std::string request = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return make_system_error(errno, "epoll_create1");
  std::vector<Client> clients(count);
  for (std::size_t i = 0; i < count; ++i) {
    clients[i].fd = TRY(connect_to(path));
    clients[i].left = requests;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, clients[i].fd.get(), &event) != 0)
      return make_system_error(errno, "epoll_ctl");
  }
  std::vector<Clock::duration> times;
  times.reserve(count * requests);
  const auto start = Clock::now();
  for (Client& client : clients)
    TRY(ask(client, request));
  for (std::size_t open = count; open != 0;) {
    epoll_event events[64];
    const int ready = ::epoll_wait(epoll.get(), events, 64, 10'000);
    if (ready == 0) return make_error(Errc::timeout, "no answer for 10 s");
    if (ready < 0 && errno != EINTR) return make_system_error(errno, "epoll_wait");
    for (int i = 0; i < ready; ++i)
      TRY(serve(clients[events[i].data.u64], request, times, open));
  }
  report(std::move(times), count, Clock::now() - start);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto clients = argc > 3 ? parse_count(argv[3]) : std::optional<std::size_t>(64);
  const auto requests = argc > 4 ? parse_count(argv[4]) : std::optional<std::size_t>(200);
  if (argc < 3 || argc > 5 || !clients || !requests) {
    std::fprintf(stderr, "usage: api_load SOCKET TARGET [CLIENTS [REQUESTS]]\n");
    return 2;
  }
  const auto done = load(argv[1], argv[2], *clients, *requests);
  if (done) return 0;
  std::fprintf(stderr, "api_load: %s\n", done.error().message().c_str());
  return 1;
}
