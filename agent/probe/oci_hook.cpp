// SPDX-License-Identifier: MIT
//
// andiron-oci-hook [--socket PATH]: what an OCI runtime calls as a container has started or
// stopped. It hands the state that it gets on stdin to the agent, in one datagram, and is gone.
//
// A container must never wait for us, nor fail because of us: nothing here takes longer than
// kPatience, and the exit status is 0 whatever happens. What is lost is found by other means.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

namespace {

using std::chrono::steady_clock;

/// As much as the agent takes.
constexpr std::size_t kMaxState = 64 * 1024;
/// For the state to come, and again for the agent, whose queue is ten datagrams short on many
/// systems, to take one. Runtimes write the state at once; the agent's loop turns in 1 ms.
constexpr std::chrono::milliseconds kPatience{100};

bool ready(int fd, short events, steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  pollfd entry{fd, events, 0};
  return left > 0 && ::poll(&entry, 1, static_cast<int>(left)) == 1;
}

/// The whole of stdin; 0 where it is too long or does not end.
std::size_t read_state(std::array<char, kMaxState + 1>& state) {
  const auto deadline = steady_clock::now() + kPatience;
  std::size_t have = 0;
  while (have < state.size() && ready(STDIN_FILENO, POLLIN, deadline)) {
    const ssize_t got = ::read(STDIN_FILENO, state.data() + have, state.size() - have);
    if (got == 0) return have;
    if (got < 0 && errno != EINTR) return 0;
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  return 0;
}

void send(std::string_view path, std::string_view state) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // Connected, so that poll knows whether there is room on the other side.
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return;
  }
  const auto deadline = steady_clock::now() + kPatience;
  while (::send(fd, state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if ((errno != EAGAIN && errno != EINTR) || !ready(fd, POLLOUT, deadline)) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view socket = "/run/andiron/hook.sock";
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--socket") socket = argv[i + 1];
  }
  static std::array<char, kMaxState + 1> state;
  const std::size_t size = read_state(state);
  if (size > 0 && size <= kMaxState) send(socket, {state.data(), size});
  return 0;
}
