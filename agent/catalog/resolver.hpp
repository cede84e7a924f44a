// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/catalog/model.hpp"
#include "agent/os/guest_root.hpp"

namespace andiron::catalog {

/// Where stores may lie. Defaults are those of this machine; tests give their own trees.
struct Places {
  std::vector<std::string> ollama_stores;  // folders that hold manifests/ and blobs/
  std::vector<std::string> hf_caches;      // folders that hold models--ORG--NAME/
};

/// Looks where stores are on a machine: OLLAMA_MODELS of running servers and of `environment`,
/// /usr/share/ollama, every home's .ollama and .cache/huggingface/hub, HF_HOME and HF_HUB_CACHE,
/// Docker and Podman volumes. `root` is "" but in tests. Blocks.
Places find_places(const std::string& root, const std::map<std::string, std::string>& environment);

struct ResolveOptions {
  Places places;
  /// Every file must lie below one of these once symlinks are resolved; nullopt for a source from
  /// the configuration, whose author is root already.
  std::optional<std::vector<std::string>> allow_roots;
  os::GuestPlaces guests;
  bool want_tensors = false;
};

/// Finds the files that a source means, and checks them: see design's words for the kinds of
/// source. `also` is resolved the same way, into companions, where folders and globs take every
/// regular file. A source may lie in a guest ("guest:NAME:/path", "guest:NAME:ollama:..."), but not
/// one that is to be below allow_roots. Blocks. Memory and time are bounded whatever the files say:
/// at most 4,096 files, 64 MiB of one header, 1 << 20 tensors, 40 symlinks, folders 16 deep.
/// Errors: source_not_found, outside_roots, not_regular_file, symlink_loop, bad_format, truncated,
/// incomplete_shards (which names them), permission_denied, too_large, io_error.
Result<Resolved> resolve(std::string_view source, const std::vector<std::string>& also,
                         const ResolveOptions& options);

}  // namespace andiron::catalog
