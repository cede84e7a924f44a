// SPDX-License-Identifier: MIT
#include "agent/tier/pinned_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "agent/base/check.hpp"
#include "agent/tier/copy_manifest.hpp"

namespace andiron::tier {
namespace {

constexpr const char* kCopies = ".copies";
constexpr const char* kDraft = ".part";
constexpr const char* kManifest = ".json";

bool is_missing(const Error& error) { return error.code == std::errc::no_such_file_or_directory; }

Result<UniqueFd> open_folder(int at, const std::string& name) {
  UniqueFd fd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return make_system_error(errno, name);
  return fd;
}

Result<UniqueFd> make_folder(int at, const std::string& name, mode_t mode) {
  if (::mkdirat(at, name.c_str(), mode) != 0 && errno != EEXIST) {
    return make_system_error(errno, name);
  }
  return open_folder(at, name);
}

Result<void> remove_file(int at, const std::string& name) {
  if (::unlinkat(at, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return make_system_error(errno, "remove " + name);
}

Result<std::vector<std::string>> names_in(int folder) {
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return make_system_error(errno, "list");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own), &::closedir);
  if (!stream) {
    ::close(own);
    return make_system_error(errno, "list");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

/// All of a folder but what `keep` names by its path below it. Nothing here is deep: names have as
/// many parts as their model's source had.
Result<void> clear_folder(int folder, const std::string& prefix,
                          const std::set<std::string>& keep) {
  for (const std::string& name : TRY(names_in(folder))) {
    const std::string path = prefix + name;
    if (keep.contains(path)) continue;
    struct stat status {};
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISDIR(status.st_mode)) {
      TRY(remove_file(folder, name));
      continue;
    }
    const UniqueFd below = TRY(open_folder(folder, name));
    TRY(clear_folder(below.get(), path + "/", keep));
    // One that is not empty has something to keep.
    ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
  }
  return {};
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// A link to the copy at that place, put there by rename: who has the old one open keeps it.
Result<void> link_copy(int copies, const std::string& copy, int folder, const std::string& path) {
  UniqueFd below;
  const std::vector<std::string> parts = parts_of(path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() || parts[i] == "." || parts[i] == "..") {
      return make_error(Errc::bad_request, "no name for a copy: " + path);
    }
    if (i + 1 < parts.size())
      below = TRY(make_folder(below ? below.get() : folder, parts[i], 0755));
  }
  const int place = below ? below.get() : folder;
  struct stat now {};
  struct stat wanted {};
  if (::fstatat(copies, copy.c_str(), &wanted, AT_SYMLINK_NOFOLLOW) != 0) {
    return make_system_error(errno, copy);
  }
  if (::fstatat(place, parts.back().c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
      now.st_ino == wanted.st_ino) {
    return {};  // rename(2) between two links of one file does nothing, and leaves both
  }
  const std::string beside = copy + ".new";
  TRY(remove_file(copies, beside));
  if (::linkat(copies, copy.c_str(), copies, beside.c_str(), 0) != 0 ||
      ::renameat(copies, beside.c_str(), place, parts.back().c_str()) != 0) {
    return make_system_error(errno, "name a copy " + path);
  }
  return {};
}

}  // namespace

std::string copy_name(const os::FileIdentity& identity) {
  return fmt::format("{:x}-{:x}-{:x}-{:x}-{:x}", identity.dev, identity.ino, identity.size,
                     static_cast<std::uint64_t>(identity.mtime_ns),
                     static_cast<std::uint64_t>(identity.ctime_ns));
}

std::string folder_name(const std::string& model) {
  std::string name;
  for (const char c : model) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool plain = letter || std::string_view("_:@+-").find(c) != std::string_view::npos ||
                       (c == '.' && !name.empty());
    name += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return name;
}

CopyDraft::CopyDraft(int copies, std::string name, UniqueFd fd)
    : copies_(copies), name_(std::move(name)), fd_(std::move(fd)) {}

CopyDraft::CopyDraft(CopyDraft&& other) noexcept
    : copies_(other.copies_),
      name_(std::exchange(other.name_, std::string())),
      fd_(std::move(other.fd_)) {}

CopyDraft::~CopyDraft() {
  if (!name_.empty()) ::unlinkat(copies_, (name_ + kDraft).c_str(), 0);
}

PinnedFolder::PinnedFolder(os::PinnedMount mount, UniqueFd copies, std::string readable,
                           std::uint64_t device)
    : mount_(std::move(mount)),
      copies_(std::move(copies)),
      device_(device),
      readable_(std::move(readable)) {}

Result<PinnedFolder> PinnedFolder::open(os::PinnedMount mount, std::string readable) {
  UniqueFd copies = TRY(make_folder(mount.root.get(), kCopies, 0700));
  struct stat status {};
  if (::fstat(copies.get(), &status) != 0) return make_system_error(errno, kCopies);
  return PinnedFolder(std::move(mount), std::move(copies), std::move(readable), status.st_dev);
}

Result<CopyDraft> PinnedFolder::begin(const os::FileIdentity& identity) const {
  const std::string name = copy_name(identity);
  const std::string draft = name + kDraft;
  TRY(remove_file(copies_.get(), draft));
  UniqueFd fd(::openat(copies_.get(), draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return make_system_error(errno, draft);
  CopyDraft made(copies_.get(), name, std::move(fd));
  if (::ftruncate(made.fd(), static_cast<off_t>(identity.size)) != 0) {
    return make_system_error(errno, draft);
  }
  return made;
}

Result<void> PinnedFolder::publish(CopyDraft& draft, const CopyManifest& manifest,
                                   const CopyAccess& access) const {
  const std::string name = copy_name(manifest.identity);
  CHECK(draft.name_ == name);
  // The mode last: chown takes bits away, and nobody is to have more for a moment.
  if (::fchown(draft.fd(), access.uid, access.gid) != 0 || ::fchmod(draft.fd(), access.mode) != 0) {
    return make_system_error(errno, "give a copy its owner");
  }
  TRY(write_manifest(manifest));
  if (::renameat(copies_.get(), (name + kDraft).c_str(), copies_.get(), name.c_str()) != 0) {
    return make_system_error(errno, "publish a copy");
  }
  draft.name_.clear();
  return {};
}

Result<void> PinnedFolder::write_manifest(const CopyManifest& manifest) const {
  const std::string name = copy_name(manifest.identity) + kManifest;
  const std::string beside = name + ".new";
  {
    const UniqueFd fd(::openat(copies_.get(), beside.c_str(),
                               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return make_system_error(errno, beside);
    const std::string text = to_text(manifest);
    // On a tmpfs a write is whole, or there is no memory for it.
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size())) {
      return make_system_error(written < 0 ? errno : ENOSPC, beside);
    }
  }
  if (::renameat(copies_.get(), beside.c_str(), copies_.get(), name.c_str()) != 0) {
    return make_system_error(errno, name);
  }
  return {};
}

Result<std::optional<CopyManifest>> PinnedFolder::find(const os::FileIdentity& identity) const {
  const std::string name = copy_name(identity);
  const auto copy = open_copy(identity);
  if (!copy && is_missing(copy.error())) return std::nullopt;
  if (!copy) return copy.error();
  const os::FileInfo info = TRY(os::stat_fd(copy->get()));
  if (info.identity.size != identity.size) return std::nullopt;
  const UniqueFd fd(
      ::openat(copies_.get(), (name + kManifest).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return std::nullopt;
  auto manifest = read_manifest(fd.get());
  // Nobody but root writes there; what does not fit is as good as not there.
  if (!manifest || manifest->identity != identity) return std::nullopt;
  return std::move(*manifest);
}

Result<UniqueFd> PinnedFolder::open_copy(const os::FileIdentity& identity) const {
  const std::string name = copy_name(identity);
  UniqueFd fd(::openat(copies_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return make_system_error(errno, name);
  return fd;
}

Result<UniqueFd> PinnedFolder::open_readable(const std::string& model, const std::string& name,
                                             const os::FileIdentity& identity) const {
  const std::string path = path_of(model) + "/" + name;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return make_system_error(errno, path);
  struct stat copy {};
  if (::fstatat(copies_.get(), copy_name(identity).c_str(), &copy, AT_SYMLINK_NOFOLLOW) != 0)
    return make_system_error(errno, path);
  struct stat status {};
  struct statvfs mount {};
  if (::fstat(fd.get(), &status) != 0 || ::fstatvfs(fd.get(), &mount) != 0)
    return make_system_error(errno, path);
  const bool same = status.st_ino == copy.st_ino && status.st_dev == copy.st_dev;
  if (!same || (mount.f_flag & ST_RDONLY) == 0) {
    return make_error(Errc::unavailable,
                      path + (same ? ": not on a read-only mount" : ": not the copy that it was"));
  }
  return fd;
}

Result<std::uint64_t> PinnedFolder::nameless_bytes() const {
  // In this order: what is being filled grows, and is not to be taken for something nameless.
  struct statvfs whole {};
  if (::fstatvfs(copies_.get(), &whole) != 0) return make_system_error(errno, "pinned-ram");
  const std::uint64_t used = (whole.f_blocks - whole.f_bfree) * std::uint64_t{whole.f_frsize};
  std::uint64_t named = 0;
  for (const std::string& name : TRY(names_in(copies_.get()))) {
    struct stat status {};
    if (::fstatat(copies_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      named += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return used > named ? used - named : 0;
}

Result<void> PinnedFolder::remove(const os::FileIdentity& identity) const {
  const std::string name = copy_name(identity);
  TRY(remove_file(copies_.get(), name));
  return remove_file(copies_.get(), name + kManifest);
}

Result<void> PinnedFolder::set_names(
    const std::string& model,
    const std::vector<std::pair<std::string, os::FileIdentity>>& files) const {
  const std::string name = folder_name(model);
  const UniqueFd folder = TRY(make_folder(mount_.root.get(), name, 0755));
  std::set<std::string> keep;
  for (const auto& [path, identity] : files) {
    TRY(link_copy(copies_.get(), copy_name(identity), folder.get(), path));
    keep.insert(path);
  }
  return clear_folder(folder.get(), "", keep);
}

Result<void> PinnedFolder::remove_names(const std::string& model) const {
  const std::string name = folder_name(model);
  const auto folder = open_folder(mount_.root.get(), name);
  if (!folder && is_missing(folder.error())) return {};
  if (!folder) return folder.error();
  TRY(clear_folder(folder->get(), "", {}));
  if (::unlinkat(mount_.root.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return make_system_error(errno, name);
  }
  return {};
}

Result<std::vector<UniqueFd>> PinnedFolder::sweep(const std::set<std::string>& copies,
                                                  const std::set<std::string>& models) const {
  std::set<std::string> keep;
  for (const std::string& copy : copies) {
    for (const char* suffix : {"", kManifest, kDraft})
      keep.insert(copy + suffix);
  }
  std::vector<UniqueFd> removed;
  for (const std::string& name : TRY(names_in(copies_.get()))) {
    if (keep.contains(name)) continue;
    UniqueFd open(::openat(copies_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    TRY(remove_file(copies_.get(), name));
    if (name.find('.') == std::string::npos && open) removed.push_back(std::move(open));
  }
  // After that, since a name may be the last that leads to a copy.
  std::set<std::string> folders{kCopies};
  for (const std::string& model : models)
    folders.insert(folder_name(model));
  const UniqueFd root = TRY(open_folder(mount_.root.get(), "."));
  TRY(clear_folder(root.get(), "", folders));
  return removed;
}

std::string PinnedFolder::path_of(const std::string& model) const {
  return readable_ + "/" + folder_name(model);
}

}  // namespace andiron::tier
