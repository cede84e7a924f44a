// SPDX-License-Identifier: MIT
#include "agent/cli/setup_model_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace andiron::cli {
namespace {

using Entries = std::vector<TreeReader::Entry>;

constexpr std::size_t kMostFilesOfAModel = 4096;  // as many as the resolver takes

bool all_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

bool has(const Entries& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const TreeReader::Entry& entry) { return entry.name == name; });
}

/// "x-00002-of-00003.gguf" is a shard of "x".
struct ShardName {
  std::string stem;   // without the shard's numbers and the ending
  std::string total;  // "00003"; empty where the file is whole
};
ShardName shard_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::size_t kTail = 15;  // "-00002-of-00003"
  std::string_view stem = name.substr(0, name.rfind('.'));
  if (stem.size() > kTail) {
    const std::string_view tail = stem.substr(stem.size() - kTail);
    if (tail[0] == '-' && all_of(tail.substr(1, 5), kDigits) && tail.substr(6, 4) == "-of-" &&
        all_of(tail.substr(10), kDigits)) {
      return {std::string(stem.substr(0, stem.size() - kTail)), std::string(tail.substr(10))};
    }
  }
  return {std::string(stem), ""};
}

/// Each GGUF file of a folder with its shards, and the folder's one projector with each.
std::vector<FoundModel> gguf_models(const std::string& folder, const Entries& entries) {
  std::vector<FoundModel> models;
  std::map<std::pair<std::string, std::string>, std::size_t> shards;  // to an index of models
  std::vector<std::string> projectors;
  for (const TreeReader::Entry& entry : entries) {
    if (entry.folder || !entry.name.ends_with(".gguf")) continue;
    if (entry.name.find("imatrix") != std::string::npos) continue;  // statistics, no weights
    const std::string path = folder + "/" + entry.name;
    auto file = found_file(path);
    if (!file) continue;
    if (entry.name.find("mmproj") != std::string::npos) {
      projectors.push_back(path);
      continue;
    }
    const ShardName shard = shard_name(entry.name);
    if (!shard.total.empty()) {
      const auto [known, fresh] = shards.try_emplace({shard.stem, shard.total}, models.size());
      if (!fresh) {
        std::vector<FoundFile>& files = models[known->second].files;
        if (files.size() < kMostFilesOfAModel) files.push_back(*std::move(file));
        continue;
      }
    }
    FoundModel model;
    model.label = shard.stem;
    model.path_source = path;
    model.files.push_back(*std::move(file));
    models.push_back(std::move(model));
  }
  for (FoundModel& model : models) {
    // Two projectors are two precisions, or of two models: which one is a guess.
    if (projectors.size() == 1) {
      model.also.push_back(projectors.front());
      if (auto file = found_file(projectors.front())) model.files.push_back(*std::move(file));
    }
    sum_up(model);
  }
  return models;
}

/// The weight files with one of these endings, in one folder.
std::vector<FoundFile> files_ending(const std::string& folder, const Entries& entries,
                                    std::initializer_list<std::string_view> endings) {
  std::vector<FoundFile> files;
  for (const TreeReader::Entry& entry : entries) {
    const bool fits = std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) {
      return entry.name.ends_with(ending);
    });
    if (entry.folder || !fits || files.size() >= kMostFilesOfAModel) continue;
    if (auto file = found_file(folder + "/" + entry.name)) files.push_back(*std::move(file));
  }
  return files;
}

/// safetensors of a pipeline's parts: one folder down.
std::vector<FoundFile> files_of_parts(TreeReader& tree, const std::string& folder,
                                      const Entries& entries) {
  std::vector<FoundFile> files;
  for (const TreeReader::Entry& entry : entries) {
    if (!entry.folder) continue;
    const std::string part = folder + "/" + entry.name;
    for (FoundFile& file : files_ending(part, tree.list(part), {".safetensors"})) {
      if (files.size() < kMostFilesOfAModel) files.push_back(std::move(file));
    }
  }
  return files;
}

/// A folder's weights as one model, where it is one.
std::vector<FoundFile> files_of_folder(TreeReader& tree, const std::string& folder,
                                       const Entries& entries) {
  if (has(entries, "model_index.json")) return files_of_parts(tree, folder, entries);
  if (!has(entries, "config.json") && !has(entries, "model.safetensors.index.json")) return {};
  std::vector<FoundFile> files = files_ending(folder, entries, {".safetensors"});
  if (has(entries, "model.safetensors.index.json")) {
    // Some repositories hold the same weights a second time, as "consolidated.safetensors".
    std::erase_if(files, [](const FoundFile& file) {
      return file.path.substr(file.path.rfind('/') + 1).compare(0, 5, "model") != 0;
    });
  }
  return files;
}

/// Blobs of large files are named by their sha256 in a Hugging Face cache.
void name_digests(const TreeReader& tree, FoundModel& model) {
  for (FoundFile& file : model.files) {
    const std::string target = tree.read_link(file.path).value_or("");
    const std::string blob = target.substr(target.rfind('/') + 1);
    if (blob.size() == 64 && all_of(blob, "0123456789abcdef")) file.digest = "sha256:" + blob;
  }
}

/// "models--org--name" is "org/name".
std::string repository_name(std::string_view folder) {
  const std::string_view name = folder.substr(8);
  const std::size_t gap = name.find("--");
  if (gap == std::string_view::npos) return std::string(name);
  // Not string::replace: at -O2, GCC 12 warns of an overlap in it that cannot be.
  return fmt::format("{}/{}", name.substr(0, gap), name.substr(gap + 2));
}

std::string newest_snapshot(TreeReader& tree, const std::string& repository) {
  constexpr std::string_view kWord =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-";
  std::string main = tree.read(repository + "/refs/main", 256).value_or("");
  while (!main.empty() && (main.back() == '\n' || main.back() == ' '))
    main.pop_back();
  // A ref is a name of a folder, not a path out of the cache.
  if (all_of(main, kWord) && main.front() != '.' &&
      tree.is_folder(repository + "/snapshots/" + main)) {
    return repository + "/snapshots/" + main;
  }
  std::string newest;
  std::int64_t newest_time = 0;
  for (const TreeReader::Entry& entry : tree.list(repository + "/snapshots")) {
    struct stat info {};
    const std::string path = repository + "/snapshots/" + entry.name;
    if (!entry.folder || ::stat(path.c_str(), &info) != 0) continue;
    if (newest.empty() || info.st_mtim.tv_sec > newest_time) {
      newest = path;
      newest_time = info.st_mtim.tv_sec;
    }
  }
  return newest;
}

}  // namespace

std::optional<FoundFile> found_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  FoundFile file;
  file.path = path;
  file.dev = info.st_dev;
  file.ino = info.st_ino;
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  file.used = std::max(info.st_atim.tv_sec, info.st_mtim.tv_sec);
  return file;
}

void sum_up(FoundModel& model) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> counted;
  model.bytes = 0;
  for (const FoundFile& file : model.files) {
    if (counted.emplace(file.dev, file.ino).second) model.bytes += file.bytes;
    model.used = std::max(model.used, file.used);
  }
}

FolderModels models_in_folder(TreeReader& tree, const std::string& folder, const Entries& entries) {
  FolderModels found;
  std::vector<FoundFile> files = files_of_folder(tree, folder, entries);
  if (!files.empty()) {
    FoundModel model;
    model.label = folder.substr(folder.rfind('/') + 1);
    model.path_source = folder;
    model.files = std::move(files);
    sum_up(model);
    found.models.push_back(std::move(model));
    found.whole = true;
    return found;
  }
  found.models = gguf_models(folder, entries);
  for (FoundFile& file : files_ending(folder, entries, {".safetensors", ".bin"})) {
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    // whisper.cpp's names; any other .bin may be anything.
    if (name.ends_with(".bin") && name.compare(0, 5, "ggml-") != 0) continue;
    FoundModel model;
    model.label = name.substr(0, name.rfind('.'));
    model.path_source = file.path;
    model.files.push_back(std::move(file));
    sum_up(model);
    found.models.push_back(std::move(model));
  }
  return found;
}

std::vector<FoundModel> models_in_repository(TreeReader& tree, const std::string& cache,
                                             const std::string& name) {
  const std::string snapshot = newest_snapshot(tree, cache + "/" + name);
  if (snapshot.empty()) return {};
  const std::string repository = repository_name(name);
  const Entries entries = tree.list(snapshot);
  std::vector<FoundModel> models;
  std::vector<FoundFile> files = files_of_folder(tree, snapshot, entries);
  if (files.empty()) files = files_ending(snapshot, entries, {".safetensors"});
  if (files.empty()) models = gguf_models(snapshot, entries);
  if (files.empty() && models.empty()) {
    files = files_ending(snapshot, entries, {".bin", ".onnx", ".pt", ".ckpt"});
  }
  if (!files.empty()) {
    FoundModel model;
    model.path_source = files.size() == 1 ? files.front().path : snapshot;
    model.files = std::move(files);
    models.push_back(std::move(model));
  }
  for (FoundModel& model : models) {
    model.kind = StoreKind::hugging_face;
    // Of a repository with several files that are models each, its name means all of them.
    model.label = models.size() == 1 ? repository : repository + "/" + model.label;
    if (models.size() == 1) model.source = "hf:" + repository;
    name_digests(tree, model);
    sum_up(model);
  }
  return models;
}

}  // namespace andiron::cli
