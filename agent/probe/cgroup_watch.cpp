// SPDX-License-Identifier: MIT
#include "agent/probe/cgroup_watch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/os/cgroup_names.hpp"
#include "agent/os/cgroup_tree.hpp"
#include "agent/os/text_file.hpp"
#include "agent/probe/file_watch.hpp"
#include "agent/probe/watch_thread.hpp"

namespace andiron::probe {
namespace {

using Kind = ContainerEvent::Kind;
using State = os::Capability::State;
namespace fs = std::filesystem;

/// A cgroup.procs of a v1 group with tens of thousands of processes.
constexpr std::size_t kMaxProcs = 1U << 20;

/// When a process began, from its start since boot; nullopt where it has gone.
std::optional<WallTime> began(std::uint64_t pid) {
  const auto stat = os::read_text(fmt::format("/proc/{}/stat", pid), 4096);
  if (!stat) return std::nullopt;
  // Its command may have spaces and brackets in it; starttime is the 20th field after that.
  const std::size_t end = stat->rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const auto fields = os::fields(std::string_view(*stat).substr(end + 1));
  const auto ticks = fields.size() > 19 ? os::parse_number(fields[19]) : std::nullopt;
  const long rate = ::sysconf(_SC_CLK_TCK);
  timespec now{};
  if (!ticks || rate <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  // The tick that it began in has its end as well: rather later than it was, since a start that
  // seems to be from before a stop would count as an old one.
  const double age = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
                     static_cast<double>(*ticks + 1) / static_cast<double>(rate);
  return std::chrono::system_clock::now() - std::chrono::duration_cast<WallTime::duration>(
                                                std::chrono::duration<double>(std::max(age, 0.0)));
}

/// When the group's first process began, which is about when the container did, also where we come
/// to see it later. A container with a tree of its own has it somewhere below.
WallTime began(const std::string& path) {
  std::optional<WallTime> time;
  os::visit_processes(path, [&](pid_t pid, const std::string&) {
    time = began(static_cast<std::uint64_t>(pid));
    return time.has_value();
  });
  return time.value_or(std::chrono::system_clock::now());
}

}  // namespace

class CgroupWatch::Impl {
 public:
  Impl(Options options, std::shared_ptr<ContainerMailbox> reports,
       std::unique_ptr<WatchThread> thread)
      : options_(std::move(options)), reports_(std::move(reports)), thread_(std::move(thread)) {
    thread_->start([this] { run(); });
  }

  void follow(std::set<std::string> names) { thread_->follow(std::move(names)); }

 private:
  /// A group of interest.
  struct Group {
    os::CgroupOwner owner;
    ino_t inode = 0;  // one that was removed and made again has another
    bool populated = false;
    WallTime seen{};     // populated, last
    WatchId watch = -1;  // of its cgroup.events; -1 on v1
  };

  void run() noexcept;
  bool wait();
  void begin();
  void enter(const std::string& path, int depth);
  void meet(const std::string& parent, const std::string& name, int depth);
  void on_change(const FileChange& change);
  void look(const std::string& path);
  void leave(const std::string& path);
  bool is_populated(const std::string& path) const;
  void tell(const Group& group, Kind kind, WallTime time);
  void tell_stop(const Group& group);
  void tell_state();

  const Options options_;
  const std::shared_ptr<ContainerMailbox> reports_;

  // The thread's own.
  struct Folder {
    std::string path;
    int depth = 0;
  };
  std::set<std::string> following_;
  std::optional<os::ProcessHierarchy> hierarchy_;
  std::optional<FileWatch> watch_;
  std::map<WatchId, Folder> folders_;
  std::map<WatchId, std::string> events_;  // of groups' cgroup.events
  std::map<std::string, Group> groups_;    // by path
  std::string trouble_;
  std::string told_;
  bool lost_ = false;                    // a report found no room
  std::unique_ptr<WatchThread> thread_;  // last: it uses all of these
};

void CgroupWatch::Impl::run() noexcept {
  while (wait()) {
    auto names = thread_->take_names();
    if (names) following_ = std::move(*names);
    if (std::exchange(lost_, false) || names) begin();
    if (!watch_) continue;
    for (const FileChange& change : watch_->drain())
      on_change(change);
    if (hierarchy_->v2) continue;
    std::vector<std::string> paths;
    for (const auto& [path, group] : groups_)
      paths.push_back(path);
    for (const std::string& path : paths)
      look(path);
  }
}

/// False: stop.
bool CgroupWatch::Impl::wait() {
  const bool polls = lost_ || (watch_ && !hierarchy_->v2 && !groups_.empty());
  return thread_->wait(watch_ ? watch_->fd() : -1, polls ? std::optional(kPoll) : std::nullopt);
}

/// Looks at everything anew: at first, when other names are followed, and when something was lost.
/// What is populated is told again, which the table knows for the same start.
void CgroupWatch::Impl::begin() {
  std::map<std::string, Group> before = std::exchange(groups_, {});
  folders_.clear();
  events_.clear();
  watch_.reset();
  trouble_.clear();
  if (following_.empty()) return tell_state();
  hierarchy_ = os::find_process_hierarchy(options_.root);
  if (!hierarchy_) {
    trouble_ = "there is no cgroup hierarchy in " + options_.root;
    return tell_state();
  }
  auto made = FileWatch::create();
  if (!made) {
    trouble_ = made.error().message();
    return tell_state();
  }
  watch_.emplace(std::move(*made));
  enter(hierarchy_->path, 0);
  for (const auto& [path, group] : before) {
    const auto now = groups_.find(path);
    const bool same = now != groups_.end() && now->second.inode == group.inode;
    if (group.populated && !(same && now->second.populated)) tell_stop(group);
  }
  tell_state();
}

/// Watches a folder, and then meets what is in it: what comes in between is met twice.
void CgroupWatch::Impl::enter(const std::string& path, int depth) {
  if (depth > os::kMaxCgroupDepth) return;
  if (folders_.size() >= os::kMaxCgroupFolders) {
    trouble_ = fmt::format("there are more than {} cgroups", os::kMaxCgroupFolders);
    return;
  }
  const auto id = watch_->add_folder(path);
  if (!id) {
    // One that is gone again is none of our troubles.
    if (id.error().errc() == Errc::unavailable) trouble_ = id.error().message();
    return;
  }
  folders_[*id] = {path, depth};
  for (const std::string& name : os::child_cgroups(path))
    meet(path, name, depth);
}

void CgroupWatch::Impl::meet(const std::string& parent, const std::string& name, int depth) {
  const std::string path = parent + "/" + name;
  struct stat info {};
  const bool there = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  const auto known = groups_.find(path);
  if (known != groups_.end()) {
    if (there && known->second.inode == info.st_ino) return look(path);
    leave(path);
  }
  if (!there) return;
  const auto owner = os::owner_of_cgroup(fs::path(parent).filename().string(), name);
  if (!owner) return enter(path, depth + 1);
  const bool followed = !owner->id.empty() || following_.contains(owner->name) ||
                        following_.contains(name);  // "ollama.service" as it is
  if (!followed || groups_.size() >= os::kMaxCgroupFolders) return;
  Group group{*owner, info.st_ino, false, {}, -1};
  if (!owner->name.empty() && !following_.contains(owner->name)) group.owner.name = name;
  if (hierarchy_->v2) {
    const UniqueFd events(::open((path + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
    if (!events) return;  // it is gone again
    const auto id = watch_->add_file(events.get());
    if (id) {
      group.watch = *id;
      events_[*id] = path;
    } else {
      trouble_ = id.error().message();
    }
  }
  groups_.emplace(path, std::move(group));
  look(path);
}

void CgroupWatch::Impl::on_change(const FileChange& change) {
  if (change.kind == FileChange::Kind::overflow) {
    lost_ = true;
    return;
  }
  if (const auto event = events_.find(change.watch); event != events_.end()) {
    return look(std::string(event->second));
  }
  const auto folder = folders_.find(change.watch);
  if (folder == folders_.end()) return;
  if (change.kind == FileChange::Kind::folder) {
    const Folder at = folder->second;
    meet(at.path, change.name, at.depth);
  } else if (change.kind == FileChange::Kind::gone) {
    folders_.erase(folder);
  }
}

/// Has it a process now?
void CgroupWatch::Impl::look(const std::string& path) {
  const auto found = groups_.find(path);
  if (found == groups_.end()) return;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || info.st_ino != found->second.inode) return leave(path);
  const bool populated = is_populated(path);
  if (populated) found->second.seen = std::chrono::system_clock::now();
  if (populated == std::exchange(found->second.populated, populated)) return;
  if (populated) {
    tell(found->second, Kind::started, began(path));
  } else {
    tell_stop(found->second);
  }
}

void CgroupWatch::Impl::leave(const std::string& path) {
  const auto found = groups_.find(path);
  if (found == groups_.end()) return;
  const Group group = std::move(found->second);
  groups_.erase(found);
  events_.erase(group.watch);
  watch_->remove(group.watch);
  if (group.populated) tell_stop(group);
}

bool CgroupWatch::Impl::is_populated(const std::string& path) const {
  if (!hierarchy_->v2) {
    const auto procs = os::read_text(path + "/cgroup.procs", kMaxProcs);
    // Too many to read are some.
    if (!procs) return procs.error().errc() == Errc::too_large;
    // The init of a guest keeps its processes in groups below.
    return !os::trim(*procs).empty() ||
           os::visit_processes(path, [](pid_t, const std::string&) { return true; });
  }
  const auto events = os::read_text(path + "/cgroup.events", 4096);
  if (!events) return false;
  for (const std::string_view line : os::split(*events, '\n')) {
    if (os::trim(line) == "populated 1") return true;
  }
  return false;
}

void CgroupWatch::Impl::tell(const Group& group, Kind kind, WallTime time) {
  const os::CgroupOwner& owner = group.owner;
  ContainerEvent event{owner.runtime, owner.id, owner.name, kind, std::nullopt, time};
  lost_ = !reports_->try_push(std::move(event), kMaxReports) || lost_;
}

/// What is polled for ended some time after it was last seen: said so, it is not taken for the end
/// of a start that another source has told of in between.
void CgroupWatch::Impl::tell_stop(const Group& group) {
  tell(group, Kind::stopped, hierarchy_->v2 ? std::chrono::system_clock::now() : group.seen);
}

void CgroupWatch::Impl::tell_state() {
  os::Capability found{"cgroup-watch", State::on,
                       "the kernel tells when a container or service gets its first process", ""};
  if (following_.empty()) {
    found.state = State::off;
    found.reason = "no model has \"container:NAME\" in its preload, or lies in a guest";
  } else if (!trouble_.empty()) {
    found.state = watch_ ? State::degraded : State::off;
    found.reason = trouble_;
    found.remedy = "raise fs.inotify.max_user_watches and max_user_instances, or mount cgroup2";
  } else if (!hierarchy_->v2) {
    found.state = State::degraded;
    found.reason = fmt::format("cgroup v1 ({}): containers are looked at every {} ms",
                               hierarchy_->path, kPoll.count());
    found.remedy = "boot with systemd.unified_cgroup_hierarchy=1";
  }
  if (found.reason == std::exchange(told_, found.reason)) return;
  reports_->push(std::move(found));  // as rare as a new configuration
}

CgroupWatch::CgroupWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CgroupWatch::~CgroupWatch() = default;

Result<std::unique_ptr<CgroupWatch>> CgroupWatch::start(Options options,
                                                        std::shared_ptr<ContainerMailbox> reports) {
  auto thread = TRY(WatchThread::create());
  return std::unique_ptr<CgroupWatch>(new CgroupWatch(
      std::make_unique<Impl>(std::move(options), std::move(reports), std::move(thread))));
}

void CgroupWatch::follow(std::set<std::string> names) { impl_->follow(std::move(names)); }

}  // namespace andiron::probe
