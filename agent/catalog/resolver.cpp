// SPDX-License-Identifier: MIT
#include "agent/catalog/resolver.hpp"

#include <unistd.h>

#include <climits>
#include <memory>
#include <utility>

#include "agent/base/guest_source.hpp"
#include "agent/catalog/assembly.hpp"
#include "agent/catalog/guest_stores.hpp"
#include "agent/catalog/hf_cache.hpp"
#include "agent/catalog/ollama_store.hpp"
#include "agent/catalog/path_source.hpp"

namespace andiron::catalog {
namespace {

constexpr std::string_view kOllamaPrefix = "ollama:";
constexpr std::string_view kHfPrefix = "hf:";

Result<void> add_in_guest(Assembly& assembly, std::string_view source, Role role) {
  const auto inside = split_guest_source(source);
  if (!inside) {
    return make_error(Errc::source_not_found,
                      std::string(source) + " is not of the form guest:NAME:/path");
  }
  // First, or a store would be called empty that nobody could look into.
  TRY(assembly.check_guest(inside->guest));
  const std::string_view rest = inside->rest;
  if (rest.starts_with('/')) return add_path(assembly, std::string(source), role);
  if (rest.starts_with(kOllamaPrefix)) {
    return add_ollama(assembly, rest.substr(kOllamaPrefix.size()),
                      TRY(guest_ollama_stores(assembly, inside->guest)), role);
  }
  if (rest.starts_with(kHfPrefix)) {
    return add_hf(assembly, rest.substr(kHfPrefix.size()),
                  TRY(guest_hf_caches(assembly, inside->guest)), role);
  }
  return make_error(Errc::source_not_found,
                    std::string(source) + " has no absolute path, ollama: or hf: in the guest");
}

Result<void> add_source(Assembly& assembly, std::string_view source, Role role,
                        const ResolveOptions& options) {
  if (source.size() >= PATH_MAX) return make_error(Errc::too_large, "a source of this length");
  if (source.starts_with(kGuestPrefix)) return add_in_guest(assembly, source, role);
  if (source.starts_with(kOllamaPrefix)) {
    return add_ollama(assembly, source.substr(kOllamaPrefix.size()), options.places.ollama_stores,
                      role);
  }
  if (source.starts_with(kHfPrefix))
    return add_hf(assembly, source.substr(kHfPrefix.size()), options.places.hf_caches, role);
  if (source.empty()) return make_error(Errc::source_not_found, "an empty source");
  if (source.starts_with('/')) return add_path(assembly, std::string(source), role);
  // Only root's own words are relative to something; what comes over a socket is relative to
  // nothing.
  char folder[PATH_MAX];
  if (assembly.scope().restricted() || ::getcwd(folder, sizeof folder) == nullptr)
    return make_error(Errc::source_not_found, std::string(source) + " is no absolute path");
  return add_path(assembly, join_path(folder, source), role);
}

}  // namespace

Result<Resolved> resolve(std::string_view source, const std::vector<std::string>& also,
                         const ResolveOptions& options) {
  Assembly assembly(source, options);
  TRY(add_source(assembly, source, Role::weights, options));
  for (const std::string& companion : also) {
    TRY(add_source(assembly, companion, Role::companion, options)
            .wrap("also '" + companion.substr(0, 200) + "'"));
  }
  return assembly.finish(options.places);
}

}  // namespace andiron::catalog
