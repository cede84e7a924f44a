// SPDX-License-Identifier: MIT
#include "agent/probe/docker_watch.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include "agent/base/log.hpp"
#include "agent/probe/docker_messages.hpp"
#include "agent/probe/http_reply.hpp"
#include "agent/probe/local_stream.hpp"
#include "agent/probe/watch_thread.hpp"

namespace andiron::probe {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using Kind = ContainerEvent::Kind;

/// An event with many labels is some KiB; an inspect of a container with many mounts 100; a list
/// has 2 KiB or so for each container.
constexpr std::size_t kMaxLine = 256 * 1024;
constexpr std::size_t kMaxState = 1024 * 1024;
constexpr std::size_t kMaxList = 8 * 1024 * 1024;
constexpr std::size_t kMaxListed = 4096;
/// A dockerd that floods us costs one thread this much a second, and then a pause.
constexpr std::size_t kMaxBytesASecond = 4 * 1024 * 1024;
/// A start whose process is not known so soon is told without.
constexpr auto kInspect = 2s;

/// {"type":["container"],"event":["start","die","rename"]}. "restart" comes after a die and a start
/// of its own; "stop", "kill" and "oom" beside a die.
constexpr std::string_view kFilters =
    "%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B%22start%22%2C%22die%22%2C"
    "%22rename%22%5D%7D";

/// Paths have no version in front: dockerd then speaks its own, whichever that is.
std::string request(const std::string& path, bool close) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: docker\r\nAccept: application/json\r\n{}\r\n", path,
                     close ? "Connection: close\r\n" : "");
}

std::uint64_t nanoseconds_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

WallTime wall_of(std::uint64_t time_ns, std::uint64_t now_ns) {
  // What has no time, or lies in the future, happened now.
  const std::uint64_t sane = time_ns == 0 || time_ns > now_ns ? now_ns : time_ns;
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::nanoseconds(static_cast<std::int64_t>(sane))));
}

os::Capability off(std::string reason, std::string remedy) {
  return {"docker", os::Capability::State::off, std::move(reason), std::move(remedy)};
}

os::Capability explain(const Error& error, const std::string& socket) {
  const int code = error.code.category() == std::system_category() ||
                           error.code.category() == std::generic_category()
                       ? error.code.value()
                       : 0;
  if (code == ENOENT || code == ECONNREFUSED || code == ENOTDIR) {
    return off(
        fmt::format("no dockerd listens on {}", socket),
        "where Docker is used: start it; where its socket lies elsewhere, set [watch] docker");
  }
  if (code == EACCES || code == EPERM) {
    return off(error.message(), "let the agent open the socket: run it as root");
  }
  return {"docker", os::Capability::State::degraded,
          fmt::format("{}; trying again", error.message()), "see what dockerd's own log says"};
}

}  // namespace

class DockerWatch::Impl {
 public:
  Impl(Options options, std::shared_ptr<ContainerMailbox> reports,
       std::unique_ptr<WatchThread> thread)
      : options_(std::move(options)), reports_(std::move(reports)), thread_(std::move(thread)) {
    thread_->start([this] { run(); });
  }

  void follow(std::set<std::string> names) { thread_->follow(std::move(names)); }

 private:
  void run() noexcept;
  Result<void> session();
  Result<LocalStream> subscribe(HttpReply& reply);
  Result<void> take_bytes(LocalStream& stream, HttpReply& reply);
  void keep_pace(std::size_t bytes);
  bool wait(const LocalStream* stream, steady_clock::time_point until);
  bool take_names();
  bool followed(const std::string& name, const std::string& id) const {
    return following_.contains(name) || following_.contains(id);
  }

  void take_line(std::string_view line);
  Result<void> list();
  Result<DockerState> inspect(const std::string& id);
  void tell_running(const std::string& id, const DockerState& state, WallTime now);
  void tell(ContainerReport report);
  void tell_capability(os::Capability capability);
  Result<std::string> get(const std::string& path, std::size_t limit,
                          std::chrono::milliseconds patience);

  const Options options_;
  const std::shared_ptr<ContainerMailbox> reports_;

  // The thread's own.
  std::set<std::string> following_;
  std::map<std::string, std::string> running_;  // id to name, of those told as started
  std::uint64_t last_ns_ = 0;                   // of the last event
  std::chrono::milliseconds back_off_{0};
  std::optional<os::Capability> told_;
  LineSplitter lines_{kMaxLine};
  std::uint64_t malformed_ = 0;
  bool list_now_ = false;
  bool answers_ = true;  // inspects, in time
  steady_clock::time_point second_{};
  std::size_t bytes_ = 0;                // in that second
  std::unique_ptr<WatchThread> thread_;  // last: it uses all of these
};

void DockerWatch::Impl::run() noexcept {
  while (true) {
    take_names();
    if (following_.empty()) {
      tell_capability(off("no model has \"container:NAME\" in its preload", ""));
      running_.clear();
      if (!wait(nullptr, steady_clock::now() + 1h)) return;
      continue;
    }
    const auto ended = session();
    if (ended || ended.error().errc() == Errc::cancelled) {
      if (wait(nullptr, steady_clock::now())) continue;  // only the names have changed
      return;
    }
    tell_capability(explain(ended.error(), options_.socket));
    back_off_ = std::clamp(back_off_ * 2, kFirstBackOff, kLongestBackOff);
    if (!wait(nullptr, steady_clock::now() + back_off_)) return;
  }
}

/// Until the time, a wake-up, or bytes of the stream. False: stop.
bool DockerWatch::Impl::wait(const LocalStream* stream, steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
  return thread_->wait(stream == nullptr ? -1 : stream->fd(), left);
}

bool DockerWatch::Impl::take_names() {
  auto names = thread_->take_names();
  if (!names) return false;
  following_ = std::move(*names);
  std::erase_if(running_, [&](const auto& entry) { return !followed(entry.second, entry.first); });
  return true;
}

/// Until the stream ends. Success: nothing is followed any longer.
Result<void> DockerWatch::Impl::session() {
  HttpReply reply;
  lines_ = LineSplitter(kMaxLine);
  LocalStream stream = TRY(subscribe(reply));
  list_now_ = true;
  auto next_list = steady_clock::now();
  while (true) {
    if (list_now_ || steady_clock::now() >= next_list) {
      list_now_ = false;
      TRY(list().wrap("list the containers"));
      back_off_ = 0ms;
      // A report that found no room has to wait for it.
      next_list = steady_clock::now() + (list_now_ ? 1s : options_.list_again);
      list_now_ = false;
      tell_capability({"docker", os::Capability::State::on,
                       fmt::format("containers are followed on {}", options_.socket), ""});
    }
    if (!wait(&stream, next_list)) return make_error(Errc::cancelled, "stopping");
    if (take_names()) {
      if (following_.empty()) return {};
      list_now_ = true;
    }
    TRY(take_bytes(stream, reply));
  }
}

Result<LocalStream> DockerWatch::Impl::subscribe(HttpReply& reply) {
  // Before the connection: what happens from here on is in the stream, or in the list.
  const std::uint64_t now = nanoseconds_now();
  const std::uint64_t since = last_ns_ == 0 ? now : std::min(last_ns_, now);
  const auto deadline = steady_clock::now() + options_.reply;
  LocalStream stream = TRY(LocalStream::connect(options_.socket, thread_->stop_fd()));
  TRY(stream.send(request(fmt::format("/events?since={}.{:09}&filters={}", since / 1'000'000'000,
                                      since % 1'000'000'000, kFilters),
                          false),
                  deadline));
  std::array<char, 4096> buffer;
  while (reply.status() == 0) {
    const std::size_t got = TRY(stream.receive(buffer, deadline).wrap("subscribe to events"));
    if (got == 0) return make_error(Errc::truncated, "dockerd hung up on a subscription");
    TRY(reply.feed({buffer.data(), got}, [this](std::string_view body) {
      lines_.feed(body, [this](std::string_view line) { take_line(line); });
    }));
  }
  if (reply.status() != 200) {
    return make_error(Errc::io_error,
                      fmt::format("dockerd answers a subscription with {}", reply.status()));
  }
  return stream;
}

/// What is there now; not more than one buffer of it.
Result<void> DockerWatch::Impl::take_bytes(LocalStream& stream, HttpReply& reply) {
  std::array<char, 64 * 1024> buffer;
  const auto got = stream.receive(buffer, steady_clock::now());
  if (!got && got.error().errc() == Errc::timeout) return {};
  if (!got) return got.error();
  if (*got == 0) return make_error(Errc::truncated, "dockerd ended its events");
  const std::uint64_t dropped = lines_.dropped();
  TRY(reply.feed({buffer.data(), *got}, [this](std::string_view body) {
    lines_.feed(body, [this](std::string_view line) { take_line(line); });
  }));
  if (lines_.dropped() != dropped) {
    log::debug("docker: an event of more than {} bytes is left out", kMaxLine);
    list_now_ = true;
  }
  if (reply.done()) return make_error(Errc::truncated, "dockerd ended its events");
  keep_pace(*got);
  return {};
}

void DockerWatch::Impl::keep_pace(std::size_t bytes) {
  const auto now = steady_clock::now();
  if (now - second_ >= 1s) {
    second_ = now;
    bytes_ = 0;
  }
  bytes_ += bytes;
  if (bytes_ < kMaxBytesASecond) return;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(second_ + 1s - now);
  pollfd fd{thread_->stop_fd(), POLLIN, 0};
  [[maybe_unused]] const int ready = ::poll(&fd, 1, static_cast<int>(left.count()));
}

void DockerWatch::Impl::take_line(std::string_view line) {
  const auto event = parse_docker_event(line);
  if (!event) {
    ++malformed_;
    log::debug("docker: {} ({} so far)", event.error().message(), malformed_);
    return;
  }
  const std::uint64_t now = nanoseconds_now();
  last_ns_ = std::max(last_ns_, std::min(event->time_ns, now));
  const bool known = running_.contains(event->id);
  if (!known && !followed(event->name, event->id)) return;
  const WallTime time = wall_of(event->time_ns, now);
  if (event->action == "start" || event->action == "rename") {
    // What dockerd knows of it now: its process, and when that began.
    if (const auto state = inspect(event->id); state && state->pid) {
      tell_running(event->id, *state, time);
    } else if (event->action == "start") {  // it did, whatever has become of it
      tell(ContainerEvent{"docker", event->id, event->name, Kind::started, std::nullopt, time});
    }
  } else if (event->action == "die") {
    running_.erase(event->id);
    tell(ContainerEvent{"docker", event->id, event->name, Kind::stopped, std::nullopt, time});
  }
}

Result<DockerState> DockerWatch::Impl::inspect(const std::string& id) {
  // One that does not answer this is not asked again before it has answered with its list.
  if (!answers_) return make_error(Errc::timeout, "dockerd is slow");
  const auto body = get(fmt::format("/containers/{}/json", id), kMaxState, kInspect);
  if (!body) {
    answers_ = body.error().errc() != Errc::timeout;
    return body.error();
  }
  DockerState state = TRY(parse_docker_state(*body));
  if (state.id != id) return make_error(Errc::bad_format, "the state of another container");
  return state;
}

void DockerWatch::Impl::tell_running(const std::string& id, const DockerState& state,
                                     WallTime now) {
  running_[id] = state.name;
  tell(ContainerEvent{"docker", id, state.name, Kind::started, state.pid,
                      state.started_at.value_or(now)});
}

Result<void> DockerWatch::Impl::list() {
  const WallTime now = std::chrono::system_clock::now();
  const std::string body = TRY(get("/containers/json", kMaxList, options_.reply));
  const auto listed = TRY(parse_docker_list(body, kMaxListed));
  answers_ = true;
  std::map<std::string, std::string> gone = running_;
  for (const DockerListed& container : listed) {
    if (!followed(container.name, container.id) && !running_.contains(container.id)) continue;
    const auto state = inspect(container.id);
    if (!state && !answers_) return state.error();
    if (!state || !state->pid) continue;  // it has ended meanwhile
    gone.erase(container.id);
    tell_running(container.id, *state, now);
  }
  for (const auto& [id, name] : gone) {
    running_.erase(id);
    tell(ContainerEvent{"docker", id, name, Kind::stopped, std::nullopt, now});
  }
  return {};
}

void DockerWatch::Impl::tell(ContainerReport report) {
  if (reports_->try_push(std::move(report), kMaxReports)) return;
  list_now_ = true;
}

void DockerWatch::Impl::tell_capability(os::Capability capability) {
  const bool news =
      !told_ || told_->state != capability.state || told_->reason != capability.reason;
  if (!news) return;
  told_ = capability;
  reports_->push(std::move(capability));  // never lost, and never faster than the back-off
}

/// A connection of its own, since the other one streams.
Result<std::string> DockerWatch::Impl::get(const std::string& path, std::size_t limit,
                                           std::chrono::milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  LocalStream stream = TRY(LocalStream::connect(options_.socket, thread_->stop_fd()));
  TRY(stream.send(request(path, true), deadline));
  HttpReply reply;
  std::string body;
  std::array<char, 16 * 1024> buffer;
  bool too_large = false;
  while (!reply.done() && !too_large) {
    const std::size_t got = TRY(stream.receive(buffer, deadline));
    if (got == 0) {
      TRY(reply.finish());
      break;
    }
    TRY(reply.feed({buffer.data(), got}, [&](std::string_view piece) {
      too_large = too_large || body.size() + piece.size() > limit;
      if (!too_large) body += piece;
    }));
  }
  if (too_large) return make_error(Errc::too_large, "dockerd's answer to GET " + path);
  if (reply.status() != 200) {
    return make_error(Errc::io_error,
                      fmt::format("dockerd answers GET {} with {}", path, reply.status()));
  }
  return body;
}

DockerWatch::DockerWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DockerWatch::~DockerWatch() = default;

Result<std::unique_ptr<DockerWatch>> DockerWatch::start(Options options,
                                                        std::shared_ptr<ContainerMailbox> reports) {
  auto thread = TRY(WatchThread::create());
  return std::unique_ptr<DockerWatch>(new DockerWatch(
      std::make_unique<Impl>(std::move(options), std::move(reports), std::move(thread))));
}

void DockerWatch::follow(std::set<std::string> names) { impl_->follow(std::move(names)); }

}  // namespace andiron::probe
