// SPDX-License-Identifier: MIT
#include "tests/root/os/loop_mount.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <utility>

#include "agent/base/unique_fd.hpp"

extern char** environ;

namespace andiron::testing {
namespace {

int spawn_and_wait(const std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (output >= 0) ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t child = -1;
  const int error =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 127;
  return WEXITSTATUS(status);
}

}  // namespace

int run(const std::vector<std::string>& command) { return spawn_and_wait(command, -1); }

std::string output_of(const std::vector<std::string>& command) {
  // Into a file in memory, which no program can fill up and wait on.
  const UniqueFd sink(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!sink || spawn_and_wait(command, sink.get()) != 0) return "";
  std::string text;
  std::array<char, 4096> buffer{};
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(sink.get(), buffer.data(), buffer.size(), at);
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    at += count;
  }
}

bool has_program(const std::string& name) {
  return !output_of({"sh", "-c", "PATH=$PATH:/usr/sbin:/sbin command -v " + name}).empty();
}

MountGuard::MountGuard(std::vector<std::string> arguments, std::filesystem::path point)
    : point_(std::move(point)) {
  std::filesystem::create_directories(point_);
  arguments.insert(arguments.begin(), "mount");
  arguments.push_back(point_.string());
  mounted_ = run(arguments) == 0;
}

MountGuard::MountGuard(MountGuard&& other) noexcept
    : point_(std::move(other.point_)), mounted_(std::exchange(other.mounted_, false)) {}

MountGuard::~MountGuard() {
  if (mounted_ && ::umount2(point_.c_str(), 0) != 0) ::umount2(point_.c_str(), MNT_DETACH);
}

MountGuard loop_mount(const std::filesystem::path& dir, const std::string& name,
                      std::vector<std::string> mkfs, std::uint64_t bytes,
                      const std::string& options) {
  const std::filesystem::path image = dir / (name + ".img");
  { const std::ofstream created(image); }
  std::filesystem::resize_file(image, bytes);
  mkfs.push_back(image.string());
  if (run(mkfs) != 0) return {};
  return MountGuard({"-o", options.empty() ? "loop" : "loop," + options, image.string()},
                    dir / name);
}

}  // namespace andiron::testing
