// SPDX-License-Identifier: MIT
#include "tests/component/cli/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace andiron::testing {
namespace {

constexpr int kPatienceMs = 10'000;  // only a test that fails waits that long

struct Pair {
  UniqueFd ours;
  UniqueFd theirs;
};

Pair make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Pair make_terminal() {
  int ours = -1;
  int theirs = -1;
  winsize size{24, 80, 0, 0};
  if (::openpty(&ours, &theirs, nullptr, nullptr, &size) != 0) throw std::runtime_error("openpty");
  ::fcntl(ours, F_SETFD, FD_CLOEXEC);
  ::fcntl(theirs, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(ours), UniqueFd(theirs)};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts)
    result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// True while more may come.
bool read_into(UniqueFd& fd, std::string& text) {
  char buffer[4096];
  const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
  if (got > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
    return true;
  }
  fd.reset();  // the end, or EIO of a terminal whose other end is closed
  return false;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, Output output,
                 const std::vector<std::string>& environment, const std::string& folder) {
  std::vector<std::string> argv{ANDIRONCTL};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::vector<std::string> env{"PATH=/usr/bin:/bin", "TZ=UTC0"};
  env.insert(env.end(), environment.begin(), environment.end());
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) env.push_back(std::string(name) + '=' + value);
  }
  const std::vector<char*> argv_pointers = pointers(argv);
  const std::vector<char*> env_pointers = pointers(env);

  Pair out = output == Output::terminal ? make_terminal() : make_pipe();
  Pair err = output == Output::terminal_err ? make_terminal() : make_pipe();
  const int err_fd = output == Output::terminal ? out.theirs.get() : err.theirs.get();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = ::open("/dev/null", O_RDONLY);
    if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(out.theirs.get(), 1) < 0 ||
        ::dup2(err_fd, 2) < 0 || ::chdir(folder.c_str()) != 0) {
      ::_exit(126);
    }
    ::execve(argv_pointers[0], argv_pointers.data(), env_pointers.data());
    ::_exit(127);
  }
  out_ = std::move(out.ours);
  if (output != Output::terminal) err_ = std::move(err.ours);
}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) { ::kill(pid_, number); }

bool Process::pump() {
  if (!out_ && !err_) return false;
  pollfd wait[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
  if (::poll(wait, 2, kPatienceMs) <= 0) return false;
  if (out_ && wait[0].revents != 0) read_into(out_, ended_.out);
  if (err_ && wait[1].revents != 0) read_into(err_, ended_.err);
  return true;
}

bool Process::wait_for(const std::string& text) {
  const auto has = [&] {
    return ended_.out.find(text) != std::string::npos || ended_.err.find(text) != std::string::npos;
  };
  while (!has() && pump()) {
  }
  return has();
}

Ended Process::wait() {
  while (pump()) {
  }
  if (out_ || err_) {  // patience ran out
    ::kill(pid_, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status)) ended_.status = WEXITSTATUS(status);
  return ended_;
}

}  // namespace andiron::testing
