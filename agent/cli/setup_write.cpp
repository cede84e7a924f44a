// SPDX-License-Identifier: MIT
#include "agent/cli/setup_write.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "agent/base/unique_fd.hpp"

namespace andiron::cli {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{1} << 20;  // what config::compile takes
constexpr int kMostBackups = 1000;

Result<std::string> real_path(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  std::array<char, PATH_MAX> target;
  if (::realpath(path.c_str(), target.data()) == nullptr) {
    return make_system_error(errno, path + " is a symlink that leads nowhere");
  }
  return std::string(target.data());
}

std::optional<std::string> content_of(int fd) {
  std::string content;
  std::array<char, 16384> block;
  while (content.size() <= kMostConfigBytes) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0) return std::nullopt;
    if (got == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

Result<void> write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return make_system_error(errno, "write " + path);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  if (::fsync(fd) != 0) return make_system_error(errno, "fsync " + path);
  return {};
}

/// A file that is removed again unless it was put in place.
class TemporaryFile {
 public:
  static Result<TemporaryFile> create(const std::string& beside) {
    TemporaryFile file;
    file.path_ = beside + ".XXXXXX";
    file.fd_ = UniqueFd(::mkostemp(file.path_.data(), O_CLOEXEC));
    if (!file.fd_) {
      const int error = errno;
      file.path_.clear();
      return make_system_error(error, "create a file beside " + beside);
    }
    return file;
  }
  TemporaryFile(TemporaryFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  int fd() const noexcept { return fd_.get(); }
  const std::string& path() const noexcept { return path_; }
  Result<void> put_in_place(const std::string& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      return make_system_error(errno, "rename to " + target);
    }
    path_.clear();
    return {};
  }

 private:
  TemporaryFile() = default;
  std::string path_;
  UniqueFd fd_;
};

/// A second name for the old file: nothing can be lost between here and the rename.
Result<std::string> keep(const std::string& path) {
  for (int n = 1; n <= kMostBackups; ++n) {
    const std::string backup = fmt::format("{}.bak-{}", path, n);
    if (::link(path.c_str(), backup.c_str()) == 0) return backup;
    if (errno == EEXIST) continue;
    // FAT and some network file systems have no hard links.
    std::error_code failed;
    if (std::filesystem::copy_file(path, backup, failed)) return backup;
    return make_system_error(failed.value() != 0 ? failed.value() : EIO, "keep " + backup);
  }
  return make_error(Errc::too_large, fmt::format("{} has {} backups already", path, kMostBackups));
}

}  // namespace

Result<WrittenConfig> write_config(const std::string& path, std::string_view text) {
  WrittenConfig written;
  written.path = TRY(real_path(path));
  const std::filesystem::path folder = std::filesystem::path(written.path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) return make_system_error(failed.value(), "make the folder " + folder.string());

  const UniqueFd old(
      ::open(written.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
  if (!old && errno != ENOENT) return make_system_error(errno, "open " + written.path);
  struct stat info {};
  if (old) {
    if (::fstat(old.get(), &info) != 0) return make_system_error(errno, "stat " + written.path);
    if (!S_ISREG(info.st_mode)) return make_error(Errc::not_regular_file, written.path);
    if (const auto before = content_of(old.get()); before && *before == text) {
      written.unchanged = true;
      return written;
    }
  }
  TemporaryFile fresh = TRY(TemporaryFile::create(written.path));
  TRY(write_all(fresh.fd(), text, written.path));
  // A config is no secret, but whoever closed theirs to others wants it to stay closed.
  if (::fchmod(fresh.fd(), old ? info.st_mode & 0777 : 0644) != 0) {
    return make_system_error(errno, "chmod " + fresh.path());
  }
  if (old && ::fchown(fresh.fd(), info.st_uid, info.st_gid) != 0 && ::geteuid() == 0) {
    return make_system_error(errno, "chown " + fresh.path());
  }
  if (old) written.backup = TRY(keep(written.path));
  TRY(fresh.put_in_place(written.path));
  const UniqueFd parent(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent) ::fsync(parent.get());
  return written;
}

}  // namespace andiron::cli
