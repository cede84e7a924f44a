// SPDX-License-Identifier: MIT
#include "agent/catalog/path_source.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/guest_source.hpp"
#include "agent/catalog/glob.hpp"
#include "agent/catalog/header_reader.hpp"
#include "agent/catalog/weight_index.hpp"

namespace andiron::catalog {
namespace {

constexpr int kMaxDepth = 16;

bool is_missing(const Error& error) { return error.errc() == Errc::source_not_found; }

bool has_weight_extension(std::string_view name) {
  constexpr std::array kExtensions = {".gguf", ".safetensors", ".bin", ".pt", ".pth"};
  return std::any_of(kExtensions.begin(), kExtensions.end(),
                     [&](const char* extension) { return name.ends_with(extension); });
}

/// Left beside weights by training, and loaded by no runtime.
bool is_training_state(std::string_view name) {
  constexpr std::array kNames = {"training_args.bin", "optimizer.bin", "optimizer.pt",
                                 "scheduler.pt", "scaler.pt"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// The same weights once more, in the older form that repositories keep for older runtimes.
bool is_older_form(std::string_view name) {
  return name.starts_with("pytorch_model") || name.starts_with("consolidated.");
}

/// The files that an index names.
Result<std::vector<std::string>> read_index(Assembly& assembly, const std::string& path) {
  const Located file = TRY(assembly.locate(path));
  assembly.watch(file.path);
  const std::string json = TRY(read_located(file, kMaxHeaderBytes));
  return parse_weight_index(json).wrap(path);
}

class FolderWalk {
 public:
  FolderWalk(Assembly& assembly, Role role) : assembly_(assembly), role_(role) {}

  Result<void> walk(const std::string& path, const Located& folder, int depth);

 private:
  Result<void> add_entries(const std::string& path, const std::vector<std::string>& names);
  Result<std::vector<std::string>> choose_weights(const std::string& path,
                                                  std::vector<std::string> names);
  Result<bool> enter_or_keep(const std::string& path, const std::string& name, int depth);

  Assembly& assembly_;
  Role role_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> visited_;
};

/// Goes into a folder; says whether `name` is a file to look at further.
Result<bool> FolderWalk::enter_or_keep(const std::string& path, const std::string& name,
                                       int depth) {
  const std::string inner = join_path(path, name);
  Result<Located> located = assembly_.locate(inner);
  if (!located) {
    if (!is_missing(located.error())) return std::move(located).error();
    if (role_ == Role::weights && has_weight_extension(name))
      return make_error(Errc::incomplete_shards, inner + " is a link to nothing");
    if (role_ == Role::companion) assembly_.note(inner + " is a link to nothing: left out");
    return false;
  }
  if (located->is_folder()) {
    if (depth == kMaxDepth) {
      assembly_.note(inner + " is more than 16 folders deep: left out");
      return false;
    }
    TRY(walk(inner, *located, depth + 1));
    return false;
  }
  if (located->is_file()) return true;
  if (role_ == Role::companion || has_weight_extension(name))
    assembly_.note(inner + " is no regular file: left out");
  return false;
}

Result<void> FolderWalk::walk(const std::string& path, const Located& folder, int depth) {
  if (!visited_.insert({folder.status.st_dev, folder.status.st_ino}).second) {
    assembly_.note(path + " leads back to a folder already seen");
    return {};
  }
  std::vector<std::string> names;
  std::vector<std::string> folders;
  for (std::string& name : TRY(assembly_.list(folder))) {
    // Hidden ones beside weights are downloads under way and version control.
    if (role_ == Role::weights && name.starts_with('.')) continue;
    const bool may_be_weights = has_weight_extension(name) || is_weight_index_name(name);
    const bool is_plain = role_ == Role::companion || may_be_weights;
    (is_plain ? names : folders).push_back(std::move(name));
  }
  std::vector<std::string> files;
  for (std::string& name : names) {
    if (TRY(enter_or_keep(path, name, depth))) files.push_back(std::move(name));
  }
  TRY(add_entries(path, files));
  for (const std::string& name : folders)
    static_cast<void>(TRY(enter_or_keep(path, name, depth)));
  return {};
}

Result<void> FolderWalk::add_entries(const std::string& path,
                                     const std::vector<std::string>& names) {
  if (role_ == Role::companion) {
    for (const std::string& name : names)
      TRY(assembly_.add_file(join_path(path, name), role_));
    return {};
  }
  for (const std::string& name : TRY(choose_weights(path, names)))
    TRY(assembly_.add_weights(join_path(path, name), role_));
  return {};
}

/// Of a folder's files, those that a runtime would load. Adds what indexes name itself.
Result<std::vector<std::string>> FolderWalk::choose_weights(const std::string& path,
                                                            std::vector<std::string> names) {
  const auto is_safetensors = [](const std::string& name) {
    return name.ends_with(".safetensors");
  };
  const bool any_safetensors = std::any_of(names.begin(), names.end(), is_safetensors);
  const bool any_gguf = std::any_of(
      names.begin(), names.end(), [](const std::string& name) { return name.ends_with(".gguf"); });
  std::set<std::string> indexed;
  for (const std::string& name : names) {
    if (!is_weight_index_name(name)) continue;
    const bool of_safetensors = name.find(".safetensors.") != std::string::npos;
    // A repository of several forms, of which this one was not downloaded, keeps its index.
    if (of_safetensors ? !any_safetensors && any_gguf : any_safetensors || any_gguf) continue;
    const std::vector<std::string> files = TRY(read_index(assembly_, join_path(path, name)));
    TRY(assembly_.add_all(path, files, role_).wrap(join_path(path, name)));
    indexed.insert(files.begin(), files.end());
  }
  std::vector<std::string> chosen;
  for (std::string& name : names) {
    if (is_weight_index_name(name) || is_training_state(name) || indexed.contains(name)) continue;
    const std::string inner = join_path(path, name);
    if (!indexed.empty() && is_safetensors(name)) {
      assembly_.note(inner + " is not in the folder's index: left out");
    } else if (any_safetensors && !is_safetensors(name) && is_older_form(name)) {
      assembly_.note(inner + " has safetensors beside it: left out");
    } else {
      chosen.push_back(std::move(name));
    }
  }
  return chosen;
}

/// Paths that match a pattern and exist, in order.
Result<std::vector<std::string>> expand_glob(Assembly& assembly, std::string_view pattern) {
  std::vector<std::string> paths = {"/"};
  if (const auto inside = split_guest_path(pattern)) {
    paths = {join_guest_source(inside->guest, "/")};
    pattern = inside->rest;
  }
  while (!pattern.empty()) {
    const std::size_t slash = pattern.find('/');
    const std::string_view part = pattern.substr(0, slash);
    pattern.remove_prefix(slash == std::string_view::npos ? pattern.size() : slash + 1);
    if (part.empty()) continue;
    std::vector<std::string> next;
    for (const std::string& path : paths) {
      if (!has_glob_characters(part)) {
        next.push_back(join_path(path, part));
        continue;
      }
      const Result<Located> folder = assembly.locate(path);
      if (!folder && !is_missing(folder.error())) return folder.error();
      if (!folder || !folder->is_folder()) continue;
      for (const std::string& name : TRY(assembly.list(*folder))) {
        if (glob_match(part, name)) next.push_back(join_path(path, name));
      }
    }
    paths = std::move(next);
  }
  return paths;
}

Result<void> add_glob(Assembly& assembly, const std::string& pattern, Role role) {
  std::vector<std::string> files;
  for (std::string& path : TRY(expand_glob(assembly, pattern))) {
    const Result<Located> located = assembly.locate(path);
    if (!located && !is_missing(located.error())) return located.error();
    if (located && located->is_file())
      files.push_back(std::move(path));
    else if (!located)
      assembly.note(path + " does not exist: left out");
    else
      assembly.note(path + " is no regular file: left out");
  }
  // "folder/*" means the weights in it, "*.onnx" what it says.
  const bool any_known = std::any_of(files.begin(), files.end(), has_weight_extension);
  if (role == Role::weights && any_known)
    std::erase_if(files, [](const std::string& path) { return !has_weight_extension(path); });
  if (files.empty()) return make_error(Errc::source_not_found, pattern + " matches no file");
  for (const std::string& path : files) {
    TRY(role == Role::weights ? assembly.add_weights(path, role) : assembly.add_file(path, role));
  }
  return {};
}

}  // namespace

Result<void> add_folder(Assembly& assembly, const std::string& path, Role role) {
  const Located folder = TRY(assembly.locate(path));
  const std::size_t before = assembly.file_count();
  TRY(FolderWalk(assembly, role).walk(path, folder, 0));
  // A companion may be a file that is there already.
  if (assembly.file_count() == before && role == Role::weights)
    return make_error(Errc::source_not_found, path + " has no weights in it");
  return {};
}

Result<void> add_path(Assembly& assembly, const std::string& path, Role role) {
  Result<Located> located = assembly.locate(path);
  if (!located) {
    if (!is_missing(located.error())) return std::move(located).error();
    if (has_glob_characters(path)) return add_glob(assembly, path, role);
    // A shard that is missing among others is told as such.
    return assembly.add_weights(path, role);
  }
  if (located->is_folder()) return add_folder(assembly, path, role);
  if (is_weight_index_name(base_name(path)) && role == Role::weights) {
    const std::vector<std::string> files = TRY(read_index(assembly, path));
    return assembly.add_all(parent_path(path), files, role).wrap(path);
  }
  if (!located->is_file()) return make_error(Errc::not_regular_file, path);
  return assembly.add_weights(path, role);
}

}  // namespace andiron::catalog
