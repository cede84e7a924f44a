// SPDX-License-Identifier: MIT
#include "agent/catalog/hf_cache.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/catalog/path_source.hpp"

namespace andiron::catalog {
namespace {

bool is_missing(const Error& error) { return error.errc() == Errc::source_not_found; }

/// The hub's own rule for names, each part between slashes.
bool is_name(std::string_view text, std::size_t max_parts) {
  constexpr std::size_t kMaxBytes = 200;
  std::size_t parts = 0;
  if (text.size() > kMaxBytes) return false;
  for (;;) {
    const std::size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    const bool plain = std::all_of(part.begin(), part.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.';
    });
    if (part.empty() || !plain || part == "." || part == ".." || ++parts > max_parts) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

/// The commit that a branch or tag stands for, or the revision itself where it is one.
Result<std::string> find_commit(Assembly& assembly, const std::string& repository,
                                const std::string& revision) {
  constexpr std::size_t kMaxRefBytes = 256;
  const Result<Located> ref = assembly.locate(join_path(repository, "refs/" + revision));
  if (ref) {
    assembly.watch(ref->path);
    std::string commit = TRY(read_located(*ref, kMaxRefBytes));
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' '))
      commit.pop_back();
    if (commit.empty() || commit.find_first_not_of("0123456789abcdef") != std::string::npos)
      return make_error(Errc::bad_format, ref->path + " names no commit");
    return commit;
  }
  if (!is_missing(ref.error())) return ref.error();
  return revision;
}

Result<std::string> find_snapshot(Assembly& assembly, const std::string& cache,
                                  const HfName& name) {
  std::string folder = "models--";
  for (const char c : name.repository)
    folder += c == '/' ? std::string("--") : std::string(1, c);
  const std::string repository = join_path(cache, folder);
  static_cast<void>(TRY(assembly.locate(repository)));
  const std::string commit = TRY(find_commit(assembly, repository, name.revision));
  std::string snapshot = join_path(repository, "snapshots/" + commit);
  static_cast<void>(TRY(assembly.locate(snapshot)));
  return snapshot;
}

}  // namespace

Result<HfName> parse_hf_name(std::string_view text) {
  HfName name;
  const std::size_t at = text.find('@');
  name.repository = text.substr(0, at);
  if (at != std::string_view::npos) name.revision = text.substr(at + 1);
  if (!is_name(name.repository, 2) || !is_name(name.revision, 8)) {
    return make_error(Errc::source_not_found, "'" + std::string(text.substr(0, 200)) +
                                                  "' is no name of a Hugging Face model");
  }
  return name;
}

Result<void> add_hf(Assembly& assembly, std::string_view name,
                    const std::vector<std::string>& caches, Role role) {
  const HfName parsed = TRY(parse_hf_name(name));
  std::optional<Error> reason;  // the first that says more than "not here"
  std::string used;
  for (const std::string& cache : caches) {
    Result<std::string> snapshot = find_snapshot(assembly, cache, parsed);
    if (!snapshot) {
      if (!is_missing(snapshot.error()) && !reason) reason = std::move(snapshot).error();
      continue;
    }
    if (used.empty()) {
      TRY(add_folder(assembly, *snapshot, role));
      used = cache;
    } else {
      assembly.note(std::string(name) + " is also in the cache " + cache + "; taken from " + used);
    }
  }
  if (!used.empty()) return {};
  if (reason) return std::move(*reason);
  return make_error(Errc::source_not_found, "no Hugging Face cache has '" + std::string(name) +
                                                "' (looked in " + std::to_string(caches.size()) +
                                                ")");
}

}  // namespace andiron::catalog
