// SPDX-License-Identifier: MIT
#include "agent/catalog/guest_stores.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <utility>

#include "agent/base/guest_source.hpp"
#include "agent/base/units.hpp"
#include "agent/catalog/service_text.hpp"

namespace andiron::catalog {
namespace {

// Of each kind of folder that is listed, and bytes of a unit: as for the machine's own.
constexpr std::size_t kMaxListed = 1024;
constexpr std::size_t kMaxTextBytes = kMiB;
/// Units, drop-ins and files of the environment that are read for one look: who made the guest's
/// tree may have made thousands.
constexpr int kMaxFilesRead = 64;

/// Looks by the assembly's own eyes, for which no symlink leads out of the guest.
class GuestFinder {
 public:
  GuestFinder(Assembly& assembly, std::string_view guest) : assembly_(assembly), guest_(guest) {}

  void add_service();
  std::vector<std::string> homes();
  void add(const std::string& path, std::initializer_list<const char*> inner);
  void add_ollama(const std::string& path);
  std::vector<std::string> take() && { return std::move(found_); }

 private:
  std::string whole(std::string_view path) const { return join_guest_source(guest_, path); }
  std::string text_of(const std::string& path);
  std::vector<std::string> names_in(const std::string& path);
  void add_service_file(const std::string& path, bool is_unit);

  Assembly& assembly_;
  const std::string guest_;
  int files_read_ = 0;
  std::vector<std::string> found_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
};

/// Empty where it is not there, or is no text of a bearable size.
std::string GuestFinder::text_of(const std::string& path) {
  if (++files_read_ > kMaxFilesRead) return {};
  const auto file = assembly_.locate(whole(path));
  if (!file) return {};
  return read_located(*file, kMaxTextBytes).value_or(std::string());
}

std::vector<std::string> GuestFinder::names_in(const std::string& path) {
  const auto folder = assembly_.locate(whole(path));
  if (!folder || !folder->is_folder()) return {};
  return list_located(*folder, kMaxListed).value_or(std::vector<std::string>());
}

/// Keeps `path` where all of `inner` are folders in it, once however many ways lead there.
void GuestFinder::add(const std::string& path, std::initializer_list<const char*> inner) {
  const auto has = [&](const char* name) {
    const auto found = assembly_.locate(whole(join_path(path, name)));
    return found && found->is_folder();
  };
  const auto folder = assembly_.locate(whole(path));
  if (!folder || !folder->is_folder()) return;
  if (!std::all_of(inner.begin(), inner.end(), has)) return;
  if (seen_.insert({folder->status.st_dev, folder->status.st_ino}).second)
    found_.push_back(whole(path));
}

void GuestFinder::add_ollama(const std::string& path) { add(path, {"manifests", "blobs"}); }

void GuestFinder::add_service_file(const std::string& path, bool is_unit) {
  const std::string text = text_of(path);
  for (const ServiceLine& line : parse_service_text(text, is_unit)) {
    if (line.kind == ServiceLine::Kind::store) {
      add_ollama(line.path);
    } else {
      add_service_file(line.path, false);
    }
  }
}

void GuestFinder::add_service() {
  for (const char* folder : kUnitFolders) {
    const std::string unit = std::string(folder) + "/ollama.service";
    std::vector<std::string> fragments;
    for (const std::string& name : names_in(unit + ".d")) {
      if (name.ends_with(".conf")) fragments.push_back(unit + ".d/" + name);
    }
    // Later drop-ins win over earlier ones, and all over the unit.
    std::reverse(fragments.begin(), fragments.end());
    fragments.push_back(unit);
    for (const std::string& fragment : fragments)
      add_service_file(fragment, true);
  }
}

std::vector<std::string> GuestFinder::homes() {
  std::vector<std::string> homes = {"/root"};
  for (const std::string& name : names_in("/home"))
    homes.push_back("/home/" + name);
  return homes;
}

}  // namespace

Result<std::vector<std::string>> guest_ollama_stores(Assembly& assembly, std::string_view guest) {
  TRY(assembly.check_guest(guest));
  GuestFinder finder(assembly, guest);
  finder.add_service();
  for (const char* path : kOllamaFolders)
    finder.add_ollama(path);
  for (const std::string& home : finder.homes())
    finder.add_ollama(home + "/.ollama/models");
  return std::move(finder).take();
}

Result<std::vector<std::string>> guest_hf_caches(Assembly& assembly, std::string_view guest) {
  TRY(assembly.check_guest(guest));
  GuestFinder finder(assembly, guest);
  for (const std::string& home : finder.homes())
    finder.add(home + "/.cache/huggingface/hub", {});
  return std::move(finder).take();
}

}  // namespace andiron::catalog
