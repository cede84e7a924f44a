// SPDX-License-Identifier: MIT
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/base/json_walk.hpp"
#include "agent/catalog/resolver.hpp"
#include "agent/catalog/scope.hpp"
#include "agent/catalog/service_text.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::catalog {
namespace {

namespace fs = std::filesystem;

// Of each kind of folder that is listed: homes, volumes.
constexpr std::size_t kMaxListed = 1024;
constexpr std::size_t kMaxTextBytes = 1 << 20;

std::string text_of(const std::string& path) {
  return os::read_text(path, kMaxTextBytes).value_or(std::string());
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(path, fs::directory_options::skip_permission_denied, error),
       end;
       !error && entry != end && found.size() < kMaxListed; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) found.push_back(entry->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Looks for stores below `root` ("" but in tests); what it keeps exists, and is kept once.
class Finder {
 public:
  explicit Finder(const std::string& root) : root_(root) {}

  Places find(const std::map<std::string, std::string>& environment);

 private:
  void add_ollama(const std::string& path);
  void add_hf(const std::string& path);
  void add_environment(const std::map<std::string, std::string>& environment);
  void add_running_servers();
  void add_service();
  void add_service_file(const std::string& path, bool is_unit);
  void add_home(const std::string& home);
  void add_volumes(const std::string& path);
  void add_docker_root();
  bool is_new(const std::string& path);

  std::string root_;
  Places places_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
};

bool Finder::is_new(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         seen_.insert({status.st_dev, status.st_ino}).second;
}

/// `path` is below root_ already.
void Finder::add_ollama(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path + "/manifests", ignored)) return;
  if (!fs::is_directory(path + "/blobs", ignored) || !is_new(path)) return;
  places_.ollama_stores.push_back(path);
}

void Finder::add_hf(const std::string& path) {
  if (is_new(path)) places_.hf_caches.push_back(path);
}

void Finder::add_environment(const std::map<std::string, std::string>& environment) {
  const auto value = [&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end() || !found->second.starts_with('/')) return std::nullopt;
    return root_ + found->second;
  };
  if (const auto path = value("OLLAMA_MODELS")) add_ollama(*path);
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto path = value(name)) add_hf(*path);
  }
  if (const auto path = value("HF_HOME")) add_hf(*path + "/hub");
  if (const auto path = value("XDG_CACHE_HOME")) add_hf(*path + "/huggingface/hub");
  if (const auto path = value("HOME")) add_home(*path);
}

/// A server in a container names its own paths; those that do not exist here are passed over, and
/// its volume is found as a volume.
void Finder::add_running_servers() {
  constexpr std::string_view kVariable = "OLLAMA_MODELS=";
  std::error_code error;
  for (fs::directory_iterator entry(root_ + "/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (text_of(entry->path().string() + "/comm") != "ollama\n") continue;
    const std::string variables = text_of(entry->path().string() + "/environ");
    for (const std::string_view variable : os::split(variables, '\0')) {
      if (variable.starts_with(kVariable) && variable.substr(kVariable.size()).starts_with('/'))
        add_ollama(root_ + std::string(variable.substr(kVariable.size())));
    }
  }
}

void Finder::add_service_file(const std::string& path, bool is_unit) {
  const std::string text = text_of(path);
  for (const ServiceLine& line : parse_service_text(text, is_unit)) {
    if (line.kind == ServiceLine::Kind::store) {
      add_ollama(root_ + line.path);
    } else {
      add_service_file(root_ + line.path, false);
    }
  }
}

void Finder::add_service() {
  for (const char* folder : kUnitFolders) {
    const std::string unit = root_ + folder + "/ollama.service";
    std::error_code error;
    std::vector<std::string> fragments;
    for (fs::directory_iterator entry(unit + ".d", error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().extension() == ".conf") fragments.push_back(entry->path().string());
    }
    // Later drop-ins win over earlier ones, and all over the unit.
    std::sort(fragments.rbegin(), fragments.rend());
    fragments.push_back(unit);
    for (const std::string& fragment : fragments)
      add_service_file(fragment, true);
  }
}

void Finder::add_home(const std::string& home) {
  add_ollama(home + "/.ollama/models");
  add_ollama(home + "/snap/ollama/common/models");
  add_hf(home + "/.cache/huggingface/hub");
  add_volumes(home + "/.local/share/docker/volumes");
  add_volumes(home + "/.local/share/containers/storage/volumes");
}

/// Named volumes of containers: the image's own layout decides what lies at their top.
void Finder::add_volumes(const std::string& path) {
  for (const std::string& volume : folders_in(path)) {
    const std::string data = volume + "/_data";
    for (const char* inner : {"", "/models", "/.ollama/models"})
      add_ollama(data + inner);
    for (const char* inner : {"/hub", "/huggingface/hub", "/.cache/huggingface/hub"})
      add_hf(data + inner);
    const std::vector<std::string> entries = folders_in(data);
    const bool is_cache = std::any_of(entries.begin(), entries.end(), [](const std::string& entry) {
      return base_name(entry).starts_with("models--");
    });
    if (is_cache) add_hf(data);
  }
}

/// Docker's folder may have been moved by its configuration.
void Finder::add_docker_root() {
  std::string moved;
  const std::string json = text_of(root_ + "/etc/docker/daemon.json");
  const auto ignored = walk_json(json, 16, [&moved](const JsonEvent& event) -> Result<void> {
    if (event.path.size() == 1 && event.path[0] == "data-root" && event.text.starts_with('/'))
      moved = std::string(event.text);
    return {};
  });
  static_cast<void>(ignored);  // Not there, or not JSON: then Docker does not run with it either.
  if (!moved.empty()) add_volumes(root_ + moved + "/volumes");
  add_volumes(root_ + "/var/lib/docker/volumes");
  add_volumes(root_ + "/var/snap/docker/common/var-lib-docker/volumes");
  add_volumes(root_ + "/var/lib/containers/storage/volumes");
}

Places Finder::find(const std::map<std::string, std::string>& environment) {
  add_running_servers();
  add_environment(environment);
  add_service();
  for (const char* path : kOllamaFolders)
    add_ollama(root_ + path);
  std::set<std::string> homes = {root_ + "/root"};
  const std::string accounts = text_of(root_ + "/etc/passwd");
  for (const std::string_view account : os::split(accounts, '\n')) {
    // name:password:uid:gid:comment:home:shell
    const std::vector<std::string_view> fields = os::split(account, ':');
    if (fields.size() > 5 && fields[5].size() > 1 && fields[5].starts_with('/') &&
        homes.size() < kMaxListed) {
      homes.insert(root_ + std::string(fields[5]));
    }
  }
  for (std::string& home : folders_in(root_ + "/home"))
    homes.insert(std::move(home));
  for (const std::string& home : homes)
    add_home(home);
  add_docker_root();
  return std::move(places_);
}

}  // namespace

Places find_places(const std::string& root, const std::map<std::string, std::string>& environment) {
  return Finder(root).find(environment);
}

}  // namespace andiron::catalog
