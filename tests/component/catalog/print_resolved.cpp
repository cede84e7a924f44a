// SPDX-License-Identifier: MIT
// print_resolved SOURCE [COMPANION...]: what the resolver says, as JSON, with all tensors.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "agent/catalog/resolved_json.hpp"
#include "agent/catalog/resolver.hpp"

int main(int argc, char** argv) {
  using namespace andiron::catalog;
  if (argc < 2) return 2;
  std::map<std::string, std::string> environment;
  for (const char* name : {"OLLAMA_MODELS", "HF_HUB_CACHE", "HF_HOME", "HOME"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  ResolveOptions options;
  options.places = find_places("", environment);
  options.want_tensors = std::getenv("NO_TENSORS") == nullptr;
  const auto resolved = resolve(argv[1], std::vector<std::string>(argv + 2, argv + argc), options);
  if (!resolved) {
    std::fprintf(stderr, "%s: %s\n", error_name(resolved.error().errc()).data(),
                 resolved.error().message().c_str());
    return 1;
  }
  std::puts(to_json(*resolved).c_str());
  return 0;
}
