// SPDX-License-Identifier: MIT
#include "agent/core/agent.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <functional>
#include <list>

#include "agent/api/lease_server.hpp"
#include "agent/api/server.hpp"
#include "agent/base/log.hpp"
#include "agent/core/configuration.hpp"
#include "agent/core/containers.hpp"
#include "agent/core/doctor.hpp"
#include "agent/core/http_api.hpp"
#include "agent/core/http_door.hpp"
#include "agent/core/last_boot.hpp"
#include "agent/core/lease_keeper.hpp"
#include "agent/core/observer.hpp"
#include "agent/core/pinned_keeper.hpp"
#include "agent/core/pressure_gate.hpp"
#include "agent/core/protection_keeper.hpp"
#include "agent/core/reconciler.hpp"
#include "agent/core/runtime_dir.hpp"
#include "agent/core/service_reports.hpp"
#include "agent/core/single_agent.hpp"
#include "agent/core/slow_lane.hpp"
#include "agent/core/standing_trouble.hpp"
#include "agent/core/version.hpp"
#include "agent/core/wanted_keeper.hpp"
#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"
#include "agent/os/boot_id.hpp"
#include "agent/os/pressure.hpp"
#include "agent/stream/engine.hpp"

namespace andiron::core {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;

constexpr auto kTick = 1s;
/// What is to be held again is known by then: which models there are, and what was asked for.
constexpr auto kSettle = 10s;
/// Progress lines, and the pressure gate's steps, while jobs run.
constexpr auto kFastTick = 100ms;
/// Deadlines of shutdown, in its order; together below systemd's 90 s by far.
constexpr auto kServerStop = 2s;
constexpr auto kEngineStop = 5s;
constexpr auto kSlowStop = 3s;
constexpr const char* kGroup = "andiron";

/// PSI's stall totals of io and memory together; nullopt where the kernel has no PSI.
std::optional<std::uint64_t> stall_total() {
  const auto io = os::read_pressure("io");
  const auto memory = os::read_pressure("memory");
  if (!io || !memory) return std::nullopt;
  return io->some.total_us + memory->some.total_us;
}

}  // namespace

class Agent::Impl {
 public:
  Impl(AgentOptions options, RuntimeDir runtime, std::unique_ptr<SlowLane> slow)
      : options_(std::move(options)),
        runtime_(std::move(runtime)),
        slow_(std::move(slow)),
        engine_({options_.settings.stream.max_bandwidth, options_.settings.stream.io_class, 64},
                clock_),
        world_(clock_, *slow_, engine_),
        pinned_(world_, options_.state_dir, runtime_.path()),
        reconciler_(world_, warmer_raw_),
        last_boot_(world_, options_.state_dir, os::read_boot_id()) {}

  Result<void> start();
  bool run();

 private:
  Result<void> make_parts();
  Result<void> listen();
  Result<void> take_name();
  Result<void> listen_for_leases();
  Configuration::Hooks configuration_hooks();
  void reconcile_soon();
  void find_capabilities();

  Result<void> watch_fds();
  Result<void> watch_hooks();
  Result<void> on_readable(int fd, asio::posix::stream_descriptor::wait_type type,
                           std::function<void()> handle);
  void wait_on(asio::posix::stream_descriptor& descriptor,
               asio::posix::stream_descriptor::wait_type type, std::function<void()> handle);
  void wait_for_signal();
  void tick();
  void stay_reachable();
  void fast_tick();
  void later(std::chrono::milliseconds delay, std::function<void()> then);
  void begin_shutdown(const char* why);

  const SystemClock clock_;
  AgentOptions options_;
  RuntimeDir runtime_;
  asio::io_context loop_{1};
  std::unique_ptr<SlowLane> slow_;
  stream::Engine engine_;
  World world_;
  PinnedKeeper pinned_;
  Warmer* warmer_raw_ = nullptr;
  Reconciler reconciler_;
  std::unique_ptr<Warmer> warmer_;
  std::unique_ptr<Configuration> configuration_;
  std::unique_ptr<WantedKeeper> wanted_;
  std::unique_ptr<Observer> observer_;
  std::unique_ptr<Containers> containers_;
  std::unique_ptr<HttpApi> http_;
  std::unique_ptr<api::Server> server_;
  std::unique_ptr<HttpDoor> http_door_;
  std::unique_ptr<LeaseKeeper> leases_;
  std::unique_ptr<api::LeaseServer> lease_server_;
  std::unique_ptr<ServiceReports> service_;
  PressureGate gate_;
  ProtectionKeeper protection_{world_};
  SingleAgent single_{world_};
  LastBoot last_boot_;

  asio::signal_set signals_{loop_};
  asio::steady_timer tick_timer_{loop_};
  asio::steady_timer fast_timer_{loop_};
  std::list<asio::posix::stream_descriptor> descriptors_;
  asio::posix::stream_descriptor* hooks_ = nullptr;  // one of them: another socket may follow it
  UniqueFd mounts_;
  bool fast_ticking_ = false;
  bool reconcile_posted_ = false;
  StandingTrouble reach_trouble_{world_, "nobody can reach this agent by its socket",
                                 "the control socket can be reached again"};
  StandingTrouble lease_trouble_{world_, "nobody can get a lease from this agent",
                                 "leases are to be had again"};
  StandingTrouble hooks_trouble_{world_, "going on without container hooks",
                                 "container hooks can report again"};
  bool stopping_ = false;
  SteadyTime started_;
};

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::create(AgentOptions options) {
  RuntimeDir runtime = TRY(RuntimeDir::open(options.runtime_dir).wrap("runtime folder"));
  TRY(make_folder(options.state_dir, 0700).wrap("state folder"));
  static const SystemClock clock;  // outlives a slow lane that is left behind
  auto slow = TRY(SlowLane::create(clock));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(runtime), std::move(slow));
  TRY(impl->start());
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

bool Agent::run() { return impl_->run(); }

Result<void> Agent::Impl::start() {
  started_ = clock_.now();
  TRY(make_parts());
  TRY(listen());
  TRY(watch_fds());
  wait_for_signal();
  find_capabilities();
  single_.start(options_.runtime_dir == kMachineRuntimeDir);
  configuration_->take(std::move(options_.settings));
  wanted_->load([this] {
    last_boot_.begin();
    reconcile_soon();
  });
  tick();
  return {};
}

Result<void> Agent::Impl::make_parts() {
  world_.config_path = options_.config_path;
  world_.environment = options_.environment;
  world_.memory.unified = os::detect_unified_memory();
  world_.read_mounts();
  world_.reconcile_soon = [this] { reconcile_soon(); };
  world_.persist_soon = [this] { wanted_->persist_soon(); };
  Warmer::Hooks hooks;
  hooks.admit = [this](ModelRecord& record) {
    observer_->read_memory();  // What was true a second ago may refuse what fits now.
    return reconciler_.admit(record);
  };
  hooks.progressed = [this](Job& job) { http_->on_job(job); };
  hooks.resolved = [this](ModelRecord& record) {
    observer_->watch(record);
    reconcile_soon();
  };
  hooks.forgotten = [this](ModelRecord& record) { observer_->forget(record); };
  warmer_ = TRY(Warmer::create(world_, pinned_, std::move(hooks)));
  warmer_raw_ = warmer_.get();
  const auto post = [this](std::function<void()> then) { asio::post(loop_, std::move(then)); };
  wanted_ = std::make_unique<WantedKeeper>(world_, *warmer_, options_.state_dir, post);
  configuration_ = std::make_unique<Configuration>(world_, *warmer_, configuration_hooks());
  observer_ = TRY(Observer::create(world_, *warmer_));
  containers_ = TRY(Containers::create(world_, *warmer_, runtime_.path()));
  http_ = std::make_unique<HttpApi>(
      HttpApi::Parts{world_, *warmer_, *observer_, *containers_, reconciler_,
                     [this](Configuration::Done then) { configuration_->reload(std::move(then)); },
                     [this](std::chrono::milliseconds delay, std::function<void()> then) {
                       later(delay, std::move(then));
                     },
                     post, started_});
  world_.events.on_append([this](const probe::Event& event) { http_->on_event(event); });
  return {};
}

Configuration::Hooks Agent::Impl::configuration_hooks() {
  Configuration::Hooks hooks;
  hooks.taken = [this] {
    containers_->take_settings();
    http_door_->look();
    lease_trouble_.see(
        lease_server_->let_in(world_.settings.agent.lease_access == config::LeaseAccess::readers));
  };
  hooks.reload_began = [this] { service_->reload_began(); };
  hooks.reload_ended = [this] { service_->reload_ended(); };
  return hooks;
}

Result<void> Agent::Impl::listen() {
  api::Server::Callbacks callbacks;
  callbacks.on_request = [this](api::Request request) {
    http_->on_request(std::move(request));
    if (warmer_->jobs().running() > 0) fast_tick();
  };
  callbacks.on_gone = [this](api::ConnectionId connection) { http_->on_gone(connection); };
  server_ = std::make_unique<api::Server>(loop_, api::Server::Limits{}, std::move(callbacks));
  http_->serve_on(*server_);
  http_door_ = std::make_unique<HttpDoor>(world_, *server_);
  TRY(listen_for_leases());
  TRY(take_name());
  service_ = std::make_unique<ServiceReports>(loop_, std::move(options_.service));
  return {};
}

Result<void> Agent::Impl::listen_for_leases() {
  leases_ = std::make_unique<LeaseKeeper>(LeaseKeeper::Parts{world_, *warmer_, pinned_});
  api::LeaseServer::Callbacks callbacks;
  callbacks.on_request = [this](api::LeaseClientId client, os::Reader who,
                                api::LeaseRequest request) {
    leases_->on_request(client, std::move(who), std::move(request));
    if (warmer_->jobs().running() > 0) fast_tick();
  };
  callbacks.on_gone = [this](api::LeaseClientId client) { leases_->on_gone(client); };
  callbacks.discard = [this](uid_t uid, std::vector<UniqueFd> fds) {
    leases_->discard(uid, std::move(fds));
  };
  callbacks.is_behind = [this](std::optional<uid_t> uid) { return leases_->is_behind(uid); };
  lease_server_ =
      std::make_unique<api::LeaseServer>(loop_, api::LeaseServer::Limits{}, std::move(callbacks));
  leases_->serve_on(*lease_server_);
  pinned_.on_withdrawn([this](const ModelRecord& record, const std::string& why) {
    leases_->withdrawn(record, why);
  });
  auto passed = TRY(options_.service.take_unix_listener("lease", SOCK_SEQPACKET));
  const bool everybody = options_.settings.agent.lease_access == config::LeaseAccess::readers;
  if (passed) return lease_server_->adopt(std::move(*passed), kGroup, everybody);
  return lease_server_->listen(runtime_.lease_socket(), kGroup, everybody);
}

/// The socket that a service manager passes, or one of our own.
Result<void> Agent::Impl::take_name() {
  auto passed = TRY(options_.service.take_unix_listener("control"));
  for (const std::string& name : options_.service.close_the_rest()) {
    log::warning("the service manager passes a socket \"{}\", which is not known here: closed",
                 name);
  }
  if (passed) return server_->adopt(std::move(*passed), kGroup);
  return server_->listen(runtime_.control_socket(), kGroup);
}

Result<void> Agent::Impl::watch_fds() {
  using Descriptor = asio::posix::stream_descriptor;
  TRY(on_readable(slow_->fd(), Descriptor::wait_read, [this] { slow_->deliver(); }));
  TRY(on_readable(warmer_->fd(), Descriptor::wait_read, [this] { warmer_->collect(); }));
  TRY(on_readable(warmer_->pinned_fd(), Descriptor::wait_read, [this] { warmer_->collect(); }));
  TRY(on_readable(observer_->watch_fd(), Descriptor::wait_read,
                  [this] { observer_->on_file_changes(); }));
  TRY(on_readable(containers_->fd(), Descriptor::wait_read, [this] {
    containers_->collect();
    if (warmer_->jobs().running() > 0) fast_tick();
  }));
  TRY(watch_hooks());
  mounts_ = UniqueFd(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (mounts_) {  // POLLPRI when the mount table changes
    TRY(on_readable(mounts_.get(), Descriptor::wait_error,
                    [this] { observer_->on_mount_change(); }));
  }
  return {};
}

Result<void> Agent::Impl::watch_hooks() {
  if (hooks_ != nullptr) {
    descriptors_.remove_if([this](const auto& descriptor) { return &descriptor == hooks_; });
    hooks_ = nullptr;
  }
  if (containers_->hook_fd() < 0) return {};
  TRY(on_readable(containers_->hook_fd(), asio::posix::stream_descriptor::wait_read, [this] {
    containers_->collect_hooks();
    if (warmer_->jobs().running() > 0) fast_tick();
  }));
  hooks_ = &descriptors_.back();
  return {};
}

Result<void> Agent::Impl::on_readable(int fd, asio::posix::stream_descriptor::wait_type type,
                                      std::function<void()> handle) {
  // asio closes what it is given, and the owner closes what it owns: so asio gets its own.
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return make_system_error(errno, "dup");
  error_code error;
  descriptors_.emplace_back(loop_);
  descriptors_.back().assign(own, error);
  if (error) {
    ::close(own);
    return make_system_error(error.value(), "watch a descriptor");
  }
  wait_on(descriptors_.back(), type, std::move(handle));
  return {};
}

void Agent::Impl::wait_on(asio::posix::stream_descriptor& descriptor,
                          asio::posix::stream_descriptor::wait_type type,
                          std::function<void()> handle) {
  descriptor.async_wait(type, [this, &descriptor, type, handle](error_code error) {
    if (error || stopping_) return;
    handle();
    wait_on(descriptor, type, handle);
  });
}

void Agent::Impl::wait_for_signal() {
  error_code ignored;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    signals_.add(signal, ignored);
  signals_.async_wait([this](error_code error, int signal) {
    if (error) return;
    if (signal == SIGHUP) {
      configuration_->reload([](const std::vector<std::string>&) {});
      wait_for_signal();
    } else {
      begin_shutdown(signal == SIGTERM ? "SIGTERM" : "SIGINT");
    }
  });
}

void Agent::Impl::reconcile_soon() {
  if (stopping_ || std::exchange(reconcile_posted_, true)) return;
  asio::post(loop_, [this] {
    reconcile_posted_ = false;
    // What is wanted comes first, however slow the state folder's disk is; within reason.
    const bool known = wanted_->loaded() || clock_.now() - started_ > kSettle;
    if (stopping_ || !known) return;
    reconciler_.run();
    if (warmer_->jobs().running() > 0) fast_tick();
  });
}

void Agent::Impl::find_capabilities() {
  slow_->run([dir = options_.state_dir] { return find_local_capabilities(dir); },
             [this](std::vector<os::Capability> found) {
               for (os::Capability& more :
                    agent_capabilities(server_->group_missing(), runtime_.control_socket())) {
                 found.push_back(std::move(more));
               }
               for (os::Capability& source : containers_->capabilities()) {
                 found.push_back(std::move(source));
               }
               found.push_back(http_door_->capability());
               found.push_back(protection_.capability());
               found.push_back(single_.capability());
               found.push_back(pinned_.capability());
               world_.capabilities = std::move(found);
             });
}

// -- The loop ------------------------------------------------------------------------------------

void Agent::Impl::tick() {
  if (stopping_) return;
  slow_->tick();
  observer_->tick();
  containers_->tick();
  single_.tick();
  protection_.tick();
  pinned_.tick(warmer_->settling() || clock_.now() - started_ < kSettle);
  leases_->tick();
  warmer_->forget_ad_hoc();
  last_boot_.tick();
  wanted_->tick();
  stay_reachable();
  service_->tick(world_);
  http_door_->tick();
  reconcile_soon();  // back-offs end, holds expire
  tick_timer_.expires_after(kTick);
  tick_timer_.async_wait([this](error_code error) {
    if (!error) tick();
  });
}

/// Whoever empties /run takes our names there with it; a few calls on a tmpfs a second see that.
void Agent::Impl::stay_reachable() {
  const auto restore = [&]() -> Result<void> {
    if (!runtime_.in_place()) runtime_ = TRY(RuntimeDir::open(runtime_.path()));
    if (TRY(server_->restore_name())) {
      log::warning("{} was removed or replaced, and is made anew", runtime_.control_socket());
    }
    return {};
  };
  reach_trouble_.see(restore());
  if (!runtime_.in_place()) return;  // another agent's, or about to be ours again
  const auto restore_leases = [&]() -> Result<void> {
    static_cast<void>(TRY(lease_server_->restore_name()));
    return {};
  };
  lease_trouble_.see(restore_leases());
  const auto restore_hooks = [&]() -> Result<void> {
    if (TRY(containers_->restore_hooks())) TRY(watch_hooks());
    return {};
  };
  hooks_trouble_.see(restore_hooks());
}

void Agent::Impl::fast_tick() {
  if (std::exchange(fast_ticking_, true) || stopping_) return;
  http_->tick();
  if (warmer_->background_running()) {
    warmer_->pause_background(gate_.tick(clock_.now(), stall_total()));
  } else {
    gate_.idle();
    warmer_->pause_background(false);
  }
  fast_timer_.expires_after(kFastTick);
  fast_timer_.async_wait([this](error_code error) {
    fast_ticking_ = false;
    if (!error && warmer_->jobs().running() > 0) fast_tick();
  });
}

void Agent::Impl::later(std::chrono::milliseconds delay, std::function<void()> then) {
  auto timer = std::make_unique<asio::steady_timer>(loop_, delay);
  asio::steady_timer& wait = *timer;
  wait.async_wait([timer = std::move(timer), then = std::move(then)](error_code error) {
    if (!error) then();
  });
}

void Agent::Impl::begin_shutdown(const char* why) {
  if (std::exchange(stopping_, true)) return;
  log::info("stopping ({})", why);
  service_->stopping();
  wanted_->remember();
  last_boot_.remember();
  for (const auto& [id, job] : warmer_->jobs().all()) {
    if (!job->ended()) job->control->cancel();
  }
  http_->end_streams();
  http_door_->stop();
  lease_server_->close();
  server_->shutdown(kServerStop, [this] { loop_.stop(); });
}

bool Agent::Impl::run() {
  log::info("andirond {} serves {}", kVersion, runtime_.control_socket());
  asio::post(loop_, [this] { service_->ready(); });
  loop_.run();
  const bool lanes = engine_.stop(kEngineStop);
  const bool slow = slow_->stop(kSlowStop);  // and with it a save under way
  if (auto saved = wanted_->save_now(); !saved) {
    log::warning("what is held cannot be written down: {}", saved.error().message());
  }
  if (auto saved = last_boot_.save_now(); !saved) {
    log::warning("what is resident cannot be written down: {}", saved.error().message());
  }
  if (!lanes || !slow) {
    log::warning("a disk does not answer; leaving a thread behind in the kernel");
    return false;
  }
  return true;
}

}  // namespace andiron::core
