// SPDX-License-Identifier: MIT
#include "agent/os/read_right.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "agent/base/unique_fd.hpp"

namespace andiron::os {
namespace {

/// As NGROUPS_MAX, which no peer can have more of.
constexpr std::size_t kMaxGroups = 65536;

/// What the child says before it ends.
struct Verdict {
  enum class Kind : int { fine, no_identity, not_opened, another_file };
  Kind kind = Kind::fine;
  int error = 0;
  std::size_t file = 0;
};

Verdict try_to_open(const std::vector<FileToRead>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const UniqueFd fd(
        ::open(files[i].path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return {Verdict::Kind::not_opened, errno, i};
    const Result<FileInfo> info = stat_fd(fd.get());
    if (!info || info->identity != files[i].identity) return {Verdict::Kind::another_file, 0, i};
  }
  return {};
}

/// Takes his ids on, for files: by the real and the saved ones he could signal this process, and
/// stop it. Without the effective uid 0 there are no effective capabilities either. Raw calls:
/// glibc's would have all threads do it, and here is one.
bool become(const Reader& who) {
  constexpr long kAsItIs = -1;
  return ::syscall(SYS_setgroups, who.groups.size(), who.groups.data()) == 0 &&
         ::syscall(SYS_setresgid, kAsItIs, who.gid, kAsItIs) == 0 &&
         ::syscall(SYS_setresuid, kAsItIs, who.uid, kAsItIs) == 0;
}

/// A child process like that of fork(), but that it has our table of descriptors, not a copy of it:
/// some are strangers', and the end of a process that has one of its own closes them, which can
/// take as long as they like. It opens one file at a time, and closes it.
pid_t fork_sharing_files() {
  const long child =
      ::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  return static_cast<pid_t>(child);
}

/// No memory is allocated here: another thread may have been at it when this process was made.
[[noreturn]] void be_the_child(const Reader& who, const std::vector<FileToRead>& files,
                               Verdict& verdict) {
  // He may not look into this process, which is a copy of ours.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  verdict = become(who) ? try_to_open(files) : Verdict{Verdict::Kind::no_identity, errno, 0};
  ::_exit(0);
}

/// Children that did not end when they were killed: a dead network file system holds them.
class Stragglers {
 public:
  void add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.push_back(pid);
  }
  void reap() {
    const std::lock_guard lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
};

Stragglers& stragglers() {
  static Stragglers all;
  return all;
}

void end_child(pid_t child) {
  ::kill(child, SIGKILL);
  if (::waitpid(child, nullptr, WNOHANG) == 0) stragglers().add(child);
}

Result<void> judge(const Verdict& verdict, const std::vector<FileToRead>& files) {
  const std::string& path = files.at(verdict.file).path;
  switch (verdict.kind) {
    case Verdict::Kind::fine:
      return {};
    case Verdict::Kind::another_file:
      return make_error(Errc::stale, path);
    case Verdict::Kind::not_opened:
      // Which of the two, a stranger is not told.
      if (verdict.error == EACCES || verdict.error == EPERM || verdict.error == ENOENT)
        return make_error(Errc::permission_denied, "its files are not this user's to read");
      return make_system_error(verdict.error, path);
    case Verdict::Kind::no_identity:
      break;
  }
  return make_error(Errc::unavailable,
                    "whether this user may read the files cannot be tried here (CAP_SETUID, "
                    "CAP_SETGID): hand over the open file instead");
}

}  // namespace

Result<Reader> reader_of(int socket_fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return make_system_error(errno, "SO_PEERCRED");
  Reader who{credentials.uid, credentials.gid, std::vector<gid_t>(64), credentials.pid};
  while (true) {
    size = static_cast<socklen_t>(who.groups.size() * sizeof(gid_t));
    if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, who.groups.data(), &size) == 0) break;
    if (errno != ERANGE || who.groups.size() >= kMaxGroups)
      return make_system_error(errno, "SO_PEERGROUPS");
    who.groups.resize(kMaxGroups);
  }
  who.groups.resize(size / sizeof(gid_t));
  return who;
}

Result<void> check_may_read(const Reader& who, const std::vector<FileToRead>& files,
                            std::chrono::milliseconds patience) {
  if (files.empty()) return {};
  if (who.uid == 0) return judge(try_to_open(files), files);
  stragglers().reap();
  void* const memory =
      ::mmap(nullptr, sizeof(Verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return make_system_error(errno, "mmap");
  const std::unique_ptr<void, void (*)(void*)> unmap(
      memory, [](void* shared) { ::munmap(shared, sizeof(Verdict)); });
  Verdict& verdict = *new (memory) Verdict;
  const pid_t child = fork_sharing_files();
  if (child < 0) return make_error(Errc::unavailable, "no process to try it in");
  if (child == 0) be_the_child(who, files, verdict);

  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U)));
  pollfd ended{process.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = process ? ::poll(&ended, 1, static_cast<int>(patience.count())) : -1;
  } while (ready < 0 && errno == EINTR);
  int status = 0;
  if (ready > 0 && ::waitpid(child, &status, 0) == child) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return judge(verdict, files);
    return make_error(Errc::unavailable, "the process that was to try it died");
  }
  end_child(child);
  return make_error(Errc::timeout, "its files do not answer");
}

}  // namespace andiron::os
