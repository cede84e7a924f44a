// SPDX-License-Identifier: MIT
#include "agent/core/runtime_dir.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

namespace andiron::core {

namespace {

std::string lock_path_in(const std::string& path) { return path + "/andirond.lock"; }

}  // namespace

Result<void> make_folder(const std::string& path, unsigned mode) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) return make_system_error(error.value(), parent.string());
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return make_system_error(errno, path);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return make_system_error(errno, path);
  if (!S_ISDIR(info.st_mode)) return make_system_error(ENOTDIR, path);
  return {};
}

Result<RuntimeDir> RuntimeDir::open(const std::string& path) {
  TRY(make_folder(path, 0755));
  const std::string lock_path = lock_path_in(path);
  UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return make_system_error(errno, lock_path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return make_error(Errc::already_running, "another andirond owns " + path);
    }
    return make_system_error(errno, lock_path);
  }
  return RuntimeDir(path, std::move(lock));
}

bool RuntimeDir::in_place() const noexcept {
  struct stat named {};
  struct stat owned {};
  return ::lstat(lock_path_in(path_).c_str(), &named) == 0 && ::fstat(lock_.get(), &owned) == 0 &&
         named.st_dev == owned.st_dev && named.st_ino == owned.st_ino;
}

}  // namespace andiron::core
