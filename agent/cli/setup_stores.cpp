// SPDX-License-Identifier: MIT
#include "agent/cli/setup_stores.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "agent/base/unique_fd.hpp"
#include "agent/cli/setup_json.hpp"
#include "agent/cli/setup_model_files.hpp"
#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

constexpr std::size_t kMostManifestBytes = std::size_t{1} << 20;
constexpr std::size_t kMostStores = 64;
constexpr std::size_t kMostNotes = 32;

bool has(const std::vector<TreeReader::Entry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const TreeReader::Entry& entry) { return entry.name == name; });
}

/// Fills a StoreFindings, each store once however many ways lead to it.
class StoreScan {
 public:
  explicit StoreScan(TreeReader& tree) : tree_(tree) {}

  /// Looks at a place and what is below it for stores of any kind.
  void explore(const std::string& place, const std::string& origin) {
    if (!tree_.is_folder(place)) return;
    tree_.walk(place, [&](const std::string& folder, const auto& entries) {
      return !take(folder, entries, origin);
    });
  }

  /// Looks at one folder that is a store of itself or none.
  void look(const std::string& folder, const std::string& origin) {
    if (tree_.is_folder(folder)) take(folder, tree_.list(folder), origin);
  }

  StoreFindings finish() {
    for (FoundStore& store : found_.stores) {
      for (const FoundModel& model : found_.models) {
        if (model.store == store.path) ++store.models;
      }
    }
    return std::move(found_);
  }

 private:
  /// Takes a folder for what it is; true when there is nothing more to look for below it.
  bool take(const std::string& folder, const std::vector<TreeReader::Entry>& entries,
            const std::string& origin) {
    struct stat info {};
    if (::stat(folder.c_str(), &info) != 0) return true;
    if (full()) return true;
    const std::pair<dev_t, ino_t> id{info.st_dev, info.st_ino};
    if (const auto seen = seen_.find(id); seen != seen_.end()) return seen->second;
    return seen_[id] = take_new(folder, entries, origin);
  }

  bool take_new(const std::string& folder, const std::vector<TreeReader::Entry>& entries,
                const std::string& origin) {
    if (has(entries, "manifests") && has(entries, "blobs")) {
      if (add_store(StoreKind::ollama, folder, origin)) add_ollama(folder);
      return true;
    }
    const bool cache = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
      return entry.folder && entry.name.compare(0, 8, "models--") == 0;
    });
    if (cache) {
      if (add_store(StoreKind::hugging_face, folder, origin)) add_cache(folder, entries);
      return true;
    }
    FolderModels here = models_in_folder(tree_, folder, entries);
    if (here.models.empty()) return false;
    const std::string store = folder_store(folder, origin);
    for (FoundModel& model : here.models) {
      model.store = store;
      add(std::move(model));
    }
    return here.whole;
  }

  /// A folder below one that is a store already belongs to it.
  std::string folder_store(const std::string& folder, const std::string& origin) {
    for (const FoundStore& store : found_.stores) {
      if (store.kind == StoreKind::folder &&
          folder.compare(0, store.path.size(), store.path) == 0 &&
          folder.size() > store.path.size() && folder[store.path.size()] == '/') {
        return store.path;
      }
    }
    add_store(StoreKind::folder, folder, origin);
    return folder;
  }

  bool add_store(StoreKind kind, const std::string& path, const std::string& origin) {
    if (found_.stores.size() >= kMostStores) return false;
    found_.stores.push_back({kind, path, origin, 0});
    return true;
  }

  bool full() {
    if (found_.models.size() < tree_.limits().models && found_.stores.size() < kMostStores) {
      return false;
    }
    tree_.note_cut_short(fmt::format("Stopped at {} models.", found_.models.size()));
    return true;
  }

  void add(FoundModel model) {
    if (!full()) found_.models.push_back(std::move(model));
  }

  void note(std::string sentence) {
    if (found_.notes.size() < kMostNotes) found_.notes.push_back(std::move(sentence));
  }

  /// manifests/HOST/NAMESPACE/MODEL/TAG
  void add_ollama(const std::string& store) {
    const std::string manifests = store + "/manifests";
    for (const auto& host : tree_.list(manifests)) {
      for (const auto& space : tree_.list(manifests + "/" + host.name)) {
        const std::string folder = manifests + "/" + host.name + "/" + space.name;
        for (const auto& model : tree_.list(folder)) {
          for (const auto& tag : tree_.list(folder + "/" + model.name)) {
            if (full() || tree_.out_of_time()) return;
            std::string name = model.name + ":" + tag.name;
            if (host.name != "registry.ollama.ai") {
              name = host.name + "/" + space.name + "/" + name;
            } else if (space.name != "library") {
              name = space.name + "/" + name;
            }
            add_manifest(store, folder + "/" + model.name + "/" + tag.name, name);
          }
        }
      }
    }
  }

  void add_manifest(const std::string& store, const std::string& path, const std::string& name) {
    const auto text = tree_.read(path, kMostManifestBytes);
    if (!text) return;
    FoundModel model;
    model.kind = StoreKind::ollama;
    model.store = store;
    model.label = name;
    model.source = "ollama:" + name;
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) model.used = info.st_mtim.tv_sec;
    for (const OllamaLayer& layer : ollama_weight_layers(*text)) {
      const std::string blob = store + "/blobs/sha256-" + layer.digest.substr(7);
      std::optional<FoundFile> file = found_file(blob);
      if (!file) {
        note(fmt::format("{} is not complete: ollama pull {} would finish it.", escape_text(name),
                         escape_text(name)));
        return;
      }
      file->digest = layer.digest;
      const bool model_layer = layer.media_type.ends_with(".model");
      if (model_layer)
        model.path_source = blob;
      else
        model.also.push_back(blob);
      // The model's own layer names it, wherever it stands among the others.
      model.files.insert(model_layer ? model.files.begin() : model.files.end(), *std::move(file));
    }
    if (model.files.empty()) return;  // runs elsewhere: a cloud model has no weights here
    if (model.path_source.empty()) {
      model.path_source = model.files.front().path;
      std::erase(model.also, model.path_source);
    }
    sum_up(model);
    add(std::move(model));
  }

  /// models--ORG--NAME/{refs/main,snapshots/REVISION/...}
  void add_cache(const std::string& cache, const std::vector<TreeReader::Entry>& entries) {
    for (const TreeReader::Entry& entry : entries) {
      if (!entry.folder || entry.name.compare(0, 8, "models--") != 0) continue;
      if (full() || tree_.out_of_time()) return;
      for (FoundModel& model : models_in_repository(tree_, cache, entry.name)) {
        model.store = cache;
        add(std::move(model));
      }
    }
  }

  TreeReader& tree_;
  StoreFindings found_;
  std::map<std::pair<dev_t, ino_t>, bool> seen_;  // and whether to stop there
};

/// Every home that the machine's users have: below /home, and those that /etc/passwd names.
std::vector<std::string> homes(TreeReader& tree) {
  constexpr std::size_t kMost = 1000;
  std::set<std::string> found{"/root"};
  for (const auto& entry : tree.list(tree.at("/home"))) {
    if (found.size() < kMost) found.insert("/home/" + entry.name);
  }
  const std::string users = tree.read(tree.at("/etc/passwd"), std::size_t{1} << 20).value_or("");
  std::string_view rest = users;
  while (!rest.empty() && found.size() < kMost) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    for (int field = 0; field < 5; ++field) {
      const std::size_t colon = line.find(':');
      line.remove_prefix(colon == std::string_view::npos ? line.size() : colon + 1);
    }
    const std::string_view home = line.substr(0, line.find(':'));
    if (home.size() > 1 && home.front() == '/') found.emplace(home);
  }
  std::vector<std::string> folders;
  for (const std::string& home : found) {
    folders.push_back(tree.at(home));
  }
  return folders;
}

void scan_home(TreeReader& tree, StoreScan& scan, const std::string& home) {
  const std::string whose = fmt::format("home {}", tree.machine_path(home));
  scan.look(home + "/.ollama/models", "Ollama in " + whose);
  scan.look(home + "/.cache/huggingface/hub", "Hugging Face cache in " + whose);
  for (const char* folder :
       {"/models", "/Models", "/.cache/llama.cpp", "/.lmstudio/models", "/.cache/lm-studio/models",
        "/.local/share/local-ai/models", "/ComfyUI/models", "/.local/share/nomic.ai/GPT4All",
        "/.var/app/com.jeffser.Alpaca/data/.ollama"}) {
    scan.explore(home + folder, "models in " + whose);
  }
}

void scan_volumes(TreeReader& tree, StoreScan& scan, const std::vector<std::string>& home_folders) {
  std::vector<std::pair<std::string, const char*>> roots{
      {tree.at("/var/lib/docker/volumes"), "Docker"},
      {tree.at("/var/lib/containers/storage/volumes"), "Podman"}};
  for (const std::string& home : home_folders) {
    roots.emplace_back(home + "/.local/share/docker/volumes", "Docker");
    roots.emplace_back(home + "/.local/share/containers/storage/volumes", "Podman");
  }
  for (const auto& [root, engine] : roots) {
    for (const auto& volume : tree.list(root)) {
      if (volume.folder) {
        scan.explore(root + "/" + volume.name + "/_data",
                     fmt::format("{} volume {}", engine, volume.name));
      }
    }
  }
}

bool sample_equal(const FoundFile& a, const FoundFile& b) {
  constexpr std::size_t kSample = 65536;
  const UniqueFd first(::open(a.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const UniqueFd second(::open(b.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!first || !second) return false;
  std::vector<char> left(kSample);
  std::vector<char> right(kSample);
  for (const std::uint64_t offset :
       {std::uint64_t{0}, a.bytes / 2, a.bytes > kSample ? a.bytes - kSample : 0}) {
    const ssize_t got = ::pread(first.get(), left.data(), kSample, static_cast<off_t>(offset));
    if (got < 0 ||
        got != ::pread(second.get(), right.data(), kSample, static_cast<off_t>(offset)) ||
        !std::equal(left.begin(), left.begin() + got, right.begin())) {
      return false;
    }
  }
  return true;
}

bool same_file(const FoundFile& a, const FoundFile& b) {
  if (a.dev == b.dev && a.ino == b.ino) return true;
  if (a.bytes != b.bytes) return false;
  if (!a.digest.empty() && !b.digest.empty()) return a.digest == b.digest;
  return sample_equal(a, b);
}

}  // namespace

StoreFindings scan_stores(TreeReader& tree, const std::vector<Runtime>& runtimes,
                          const catalog::Places& places,
                          const std::map<std::string, std::string>& environment) {
  StoreScan scan(tree);
  scan.look(tree.at("/usr/share/ollama/.ollama/models"), "Ollama's service user");
  for (const char* folder :
       {"/var/lib/ollama", "/var/lib/private/ollama", "/var/snap/ollama/common"}) {
    scan.explore(tree.at(folder), "Ollama's service");
  }
  const std::vector<std::string> home_folders = homes(tree);
  for (const std::string& home : home_folders) {
    scan_home(tree, scan, home);
  }
  scan_volumes(tree, scan, home_folders);
  for (const std::string& store : places.ollama_stores) {
    scan.look(store, "Ollama's store");
  }
  for (const std::string& cache : places.hf_caches) {
    scan.look(cache, "Hugging Face cache");
  }
  for (const Runtime& runtime : runtimes) {
    const std::string origin = "where " + runtime.kind + " keeps models";
    for (const std::string& folder : runtime.folders) {
      scan.explore(folder, origin);
    }
    for (const std::string& file : runtime.model_files) {
      const std::size_t slash = file.rfind('/');
      if (slash != std::string::npos && slash > 0) scan.look(file.substr(0, slash), origin);
    }
  }
  for (const char* folder : {"/srv/models", "/models", "/opt/models", "/data/models", "/mnt/models",
                             "/srv/llm", "/usr/share/local-ai/models", "/opt/localai/models",
                             "/var/lib/localai/models", "/opt/ComfyUI/models"}) {
    scan.explore(tree.at(folder), "folder of models");
  }
  const auto variable = [&](const char* name) -> std::string {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
  };
  for (const char* name : {"OLLAMA_MODELS", "HF_HUB_CACHE", "LLAMA_CACHE"}) {
    if (const std::string value = variable(name); !value.empty())
      scan.explore(tree.at(value), name);
  }
  if (const std::string value = variable("HF_HOME"); !value.empty()) {
    scan.explore(tree.at(value + "/hub"), "HF_HOME");
  }
  return scan.finish();
}

bool same_weights(const FoundModel& a, const FoundModel& b) {
  const std::size_t count = std::min(a.files.size(), b.files.size());
  // The same weights with and without a projector are still the same weights.
  if (count == 0 || (count > 1 && a.files.size() != b.files.size())) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!same_file(a.files[i], b.files[i])) return false;
  }
  return true;
}

}  // namespace andiron::cli
