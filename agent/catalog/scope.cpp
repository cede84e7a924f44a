// SPDX-License-Identifier: MIT
#include "agent/catalog/scope.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>

#include "agent/base/guest_source.hpp"
#include "agent/os/file.hpp"
#include "agent/os/mounts.hpp"

namespace andiron::catalog {
namespace {

constexpr int kMaxLinks = 40;  // The kernel's own bound.

struct CloseFolder {
  void operator()(DIR* stream) const noexcept { ::closedir(stream); }
};

std::string fd_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

std::string read_link_at(int dir, const char* name) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(dir, name, target.data(), target.size());
  target.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return target;
}

/// Opens what is at `path` itself; a symlink on the way to it is ELOOP, a symlink at its end is
/// opened as one. Where openat2 is not there (before 5.6, or behind an old seccomp filter) the fd
/// must prove where it lies.
Result<UniqueFd> open_exact(const std::string& path) {
  struct open_how how = {};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  if (errno != ENOSYS && errno != EPERM) return make_system_error(errno, path);
  UniqueFd plain(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!plain) return make_system_error(errno, path);
  if (read_link_at(AT_FDCWD, fd_path(plain.get()).c_str()) != path)
    return make_system_error(ELOOP, path);
  return plain;
}

void add_real_path(const std::string& root, std::vector<std::string>& real_roots) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(root.c_str(), nullptr),
                                                         &std::free);
  if (real != nullptr) real_roots.emplace_back(real.get());
}

void push_front(std::deque<std::string>& pending, std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    names.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  pending.insert(pending.begin(), names.begin(), names.end());
}

/// Goes down a path, one component at a time: `open` opens a path without symlinks, `may_pass` says
/// whether it may be looked at.
template <class Open, class MayPass>
Result<Located> walk(std::string_view path, std::vector<std::string>* links, Open open,
                     MayPass may_pass) {
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos ||
      path.size() >= PATH_MAX) {
    return make_error(Errc::source_not_found, "no absolute path");
  }
  std::deque<std::string> pending;
  push_front(pending, path);
  Located here;
  here.path = "/";
  here.fd = TRY(open(here.path));
  int followed = 0;
  while (!pending.empty()) {
    const std::string name = std::move(pending.front());
    pending.pop_front();
    if (name.empty() || name == ".") continue;
    std::string next = name == ".." ? parent_path(here.path) : join_path(here.path, name);
    if (!may_pass(next)) return make_error(Errc::outside_roots, std::string(path));
    UniqueFd fd = TRY(open(next));
    struct stat status = {};
    if (::fstat(fd.get(), &status) != 0) return make_system_error(errno, next);
    if (!S_ISLNK(status.st_mode)) {
      here.path = std::move(next);
      here.fd = std::move(fd);
      continue;
    }
    if (++followed > kMaxLinks) return make_error(Errc::symlink_loop, std::string(path));
    const std::string target = read_link_at(fd.get(), "");
    if (target.empty()) return make_system_error(errno, next);
    if (links != nullptr) links->push_back(next);
    push_front(pending, target);
    if (!target.starts_with('/')) continue;
    here.path = "/";
    here.fd = TRY(open(here.path));
  }
  if (::fstat(here.fd.get(), &here.status) != 0) return make_system_error(errno, here.path);
  return here;
}

/// A trailing slash asks for a folder.
Result<void> check_kind(std::string_view path, const Located& found) {
  if (path.ends_with('/') && !found.is_folder()) return make_system_error(ENOTDIR, found.path);
  return {};
}

}  // namespace

bool is_below(std::string_view path, std::string_view root) noexcept {
  if (root == "/") return path.starts_with('/');
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.ends_with('/')) path += '/';
  path += name;
  return path;
}

std::string parent_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  const auto inside = split_guest_path(path);
  const std::size_t root = inside ? path.size() - inside->rest.size() : 0;
  return std::string(path.substr(0, slash == root ? slash + 1 : slash));
}

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

Scope Scope::below(const std::vector<std::string>& roots) {
  Scope scope;
  scope.restricted_ = true;
  const std::vector<os::Mount> mounts = os::read_mounts().value_or(std::vector<os::Mount>{});
  for (const std::string& root : roots) {
    if (!root.starts_with('/')) continue;
    std::string normal = std::filesystem::path(root).lexically_normal().string();
    if (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
    const os::Mount* mount = os::mount_at(normal, mounts);
    if (mount != nullptr && os::is_network_type(mount->type)) {
      scope.network_roots_.push_back(normal);
      scope.real_roots_.push_back(normal);  // as far as can be told without asking it
    } else {
      add_real_path(normal, scope.real_roots_);
    }
    scope.lexical_roots_.push_back(std::move(normal));
  }
  return scope;
}

std::vector<std::string> Scope::real_roots_for(std::string_view path) const {
  std::vector<std::string> real = real_roots_;
  for (const std::string& root : network_roots_) {
    if (is_below(path, root)) add_real_path(root, real);
  }
  return real;
}

bool Scope::may_end(const std::string& path, const std::vector<std::string>& real) const noexcept {
  if (!restricted_) return true;
  return std::any_of(real.begin(), real.end(),
                     [&](const std::string& root) { return is_below(path, root); });
}

/// Folders above a root may be passed: they lead there, and their names are no secret.
bool Scope::may_pass(const std::string& path, const std::vector<std::string>& real) const noexcept {
  if (!restricted_) return true;
  const auto on_the_way = [&](const std::string& root) {
    return is_below(path, root) || is_below(root, path);
  };
  return std::any_of(real.begin(), real.end(), on_the_way) ||
         std::any_of(lexical_roots_.begin(), lexical_roots_.end(), on_the_way);
}

Result<Located> Scope::locate(std::string_view path, std::vector<std::string>* links) const {
  const std::vector<std::string> real = real_roots_for(path);
  Located found = TRY(
      walk(path, links, open_exact, [&](const std::string& next) { return may_pass(next, real); }));
  if (!may_end(found.path, real)) return make_error(Errc::outside_roots, std::string(path));
  TRY(check_kind(path, found));
  return found;
}

Result<Located> locate_in_guest(const os::GuestRoot& guest, std::string_view path,
                                std::vector<std::string>* links) {
  std::vector<std::string> inner;
  Result<Located> found = walk(
      path, &inner, [&](const std::string& next) { return guest.open_exact(next); },
      [](const std::string&) { return true; });
  for (const std::string& link : inner) {
    if (links != nullptr) links->push_back(join_guest_source(guest.guest(), link));
  }
  if (!found) return std::move(found).wrap("guest " + guest.guest());
  TRY(check_kind(path, *found));
  found->path = join_guest_source(guest.guest(), found->path);
  return found;
}

Result<UniqueFd> open_located(const Located& located) {
  if (!located.is_file()) return make_error(Errc::not_regular_file, located.path);
  Result<UniqueFd> fd = os::open_regular(fd_path(located.fd.get()));
  if (!fd) fd.error().context = located.path;  // Not the detour through /proc.
  return fd;
}

Result<std::vector<std::string>> list_located(const Located& folder, std::size_t limit) {
  UniqueFd fd(::open(fd_path(folder.fd.get()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return make_system_error(errno, folder.path);
  const std::unique_ptr<DIR, CloseFolder> stream(::fdopendir(fd.get()));
  if (stream == nullptr) return make_system_error(errno, folder.path);
  fd.release();  // closedir's now
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == limit)
      return make_error(Errc::too_large, folder.path + " has too many entries");
    names.push_back(std::move(name));
    errno = 0;
  }
  if (errno != 0) return make_system_error(errno, folder.path);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> read_located(const Located& file, std::size_t limit) {
  const UniqueFd fd = TRY(open_located(file));
  std::string text;
  for (;;) {
    char buffer[16384];
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_system_error(errno, file.path);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > limit) return make_error(Errc::too_large, file.path);
  }
}

}  // namespace andiron::catalog
