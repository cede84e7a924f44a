// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/cli/setup_tree.hpp"

namespace andiron::cli {

/// A container as far as the cgroup of one of its processes, and Docker's or Podman's files, tell.
struct Container {
  std::string id;    // 64 hex digits; empty: no container
  std::string name;  // empty where the engine's files cannot be read
};

/// What /proc says about a process, with `setup`'s bounds.
struct ProcessView {
  std::int64_t pid = 0;
  std::string comm;
  std::string exe;  // as the process itself sees it; empty where it cannot be read
  std::vector<std::string> args;
  std::string cgroup;  // the path of v2, or of v1's memory controller
  Container container;
};

/// A process that runs models.
struct Runtime {
  std::string kind;  // "ollama", "llama-server", "vllm", ...
  ProcessView process;
  std::map<std::string, std::string> environment;          // the few variables that matter here
  std::set<std::pair<std::uint64_t, std::uint64_t>> open;  // (dev, ino) of what it maps or has open
  std::vector<std::string> model_files;  // named on its command line; paths with the prefix
  std::vector<std::string> model_names;  // repositories named there: "org/name"
  std::vector<std::string> folders;      // where it may keep models; paths with the prefix
};

/// Another user of the machine's memory that Andiron should know: a transcoder, a camera recorder.
struct FoundTenant {
  std::string name;
  std::string match_exe;
  std::string match_cgroup;
  std::string why;      // how it was found
  std::string caution;  // what to know about the rule; may be empty
};

struct ProcessFindings {
  std::vector<Runtime> runtimes;
  std::vector<FoundTenant> tenants;
  std::vector<Container> containers;  // those with processes that may be looked at, by name
};

/// Looks at every process. Without root, other users' processes show only names and command lines.
ProcessFindings scan_processes(TreeReader& tree);

/// The kind of runtime that a process is, or "": by its binary and, for Python programs, by the
/// module or script it runs; never by an argument that merely mentions one.
std::string_view runtime_kind(const ProcessView& process);

}  // namespace andiron::cli
