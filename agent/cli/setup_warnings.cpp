// SPDX-License-Identifier: MIT
#include "agent/cli/setup_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "agent/base/units.hpp"

namespace andiron::cli {
namespace {

bool has_argument(const Runtime& runtime, std::initializer_list<std::string_view> wanted) {
  const std::vector<std::string>& args = runtime.process.args;
  return std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    return std::find(wanted.begin(), wanted.end(), arg) != wanted.end();
  });
}

bool option_is(const Runtime& runtime, std::string_view name, std::string_view value) {
  const std::vector<std::string>& args = runtime.process.args;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == std::string(name) + "=" + std::string(value)) return true;
    if (args[i] == name && i + 1 < args.size() && args[i + 1] == value) return true;
  }
  return false;
}

const Runtime* find_runtime(const Machine& machine, std::string_view kind) {
  for (const Runtime& runtime : machine.runtimes) {
    if (runtime.kind == kind) return &runtime;
  }
  return nullptr;
}

bool has_model_gpu(const Machine& machine) {
  // An Intel GPU is in most desktop processors, where Ollama does not use it.
  return std::any_of(machine.gpus.begin(), machine.gpus.end(),
                     [](const FoundGpu& gpu) { return gpu.vendor != "Intel"; });
}

void add_memory_warnings(const Proposal& proposal, std::vector<std::string>& warnings) {
  const Machine& machine = proposal.machine;
  if (!machine.memory) {
    warnings.push_back("How much memory there is could not be read, so nothing is proposed.");
    return;
  }
  const os::MemoryView& memory = *machine.memory;
  if (!memory.limited_by.empty() && memory.limited_by != "machine") {
    warnings.push_back(fmt::format(
        "Memory is limited to {} by the control group {}: the proposal counts with that. If the "
        "agent will run outside of it, run setup there.",
        format_bytes(memory.limit), memory.limited_by));
  }
  const std::uint64_t swapped =
      memory.swap_total > memory.swap_free ? memory.swap_total - memory.swap_free : 0;
  if (swapped > kGiB && swapped > memory.swap_total / 2) {
    warnings.push_back(fmt::format(
        "{} are swapped out already: this machine is short of memory, and what Andiron holds makes "
        "it shorter. Keep the small models only.",
        format_bytes(swapped)));
  }
  if (memory.limit < 6 * kGiB) {
    warnings.push_back(
        fmt::format("This machine has {}: {} at most would be held, enough for a small model.",
                    format_bytes(memory.limit), format_bytes(proposal.capacity)));
  }
  if (machine.memlock) {
    warnings.push_back(fmt::format(
        "Locking memory is limited to {} here even for root (a container without IPC_LOCK?): "
        "models stay mapped, which holds against mild pressure only.",
        format_bytes(*machine.memlock)));
  }
}

void add_ollama_warnings(const Machine& machine, std::vector<std::string>& warnings) {
  const Runtime* ollama = nullptr;
  for (const Runtime& runtime : machine.runtimes) {
    // The server, not the runners that it starts.
    if (runtime.kind == "ollama" && (ollama == nullptr || has_argument(runtime, {"serve"}))) {
      ollama = &runtime;
    }
  }
  if (ollama == nullptr) return;
  const auto keep_alive = ollama->environment.find("OLLAMA_KEEP_ALIVE");
  if (keep_alive == ollama->environment.end() || keep_alive->second.empty()) {
    warnings.push_back(
        "Ollama itself unloads a model after 5 minutes without a request (OLLAMA_KEEP_ALIVE is not "
        "set, or cannot be seen). Andiron makes loading it again quick; to spare even that, set "
        "OLLAMA_KEEP_ALIVE=1h, say, for the Ollama service.");
  } else if (keep_alive->second.front() == '-') {
    warnings.push_back(
        "OLLAMA_KEEP_ALIVE is negative: Ollama never unloads of its own accord. Andiron then helps "
        "after restarts, updates and when models are switched.");
  }
  if (!has_model_gpu(machine)) {
    warnings.push_back(
        "Ollama seems to run on the CPU alone. It then copies the weights into memory of its own, "
        "so that a loaded model takes its size twice: once there and once in what Andiron holds. "
        "Loading is quicker all the same; on a tight machine, keep less.");
  }
}

void add_loader_warnings(const Machine& machine, std::vector<std::string>& warnings) {
  for (const Runtime& runtime : machine.runtimes) {
    if (runtime.kind != "llama-server") continue;
    if (has_argument(runtime, {"--direct-io", "-dio"}) ||
        option_is(runtime, "--load-mode", "dio")) {
      warnings.push_back(fmt::format(
          "llama-server (pid {}) reads its model with direct I/O, past the page cache: keeping the "
          "file there does nothing for it. Start it without --direct-io / --load-mode dio.",
          runtime.process.pid));
    } else if (has_argument(runtime, {"--no-mmap"}) || option_is(runtime, "--load-mode", "none")) {
      warnings.push_back(fmt::format(
          "llama-server (pid {}) copies its weights (--no-mmap): they take RAM twice while loaded. "
          "Loading is quicker all the same.",
          runtime.process.pid));
    }
  }
  const Runtime* vllm = find_runtime(machine, "vllm");
  if (vllm != nullptr && option_is(*vllm, "--load-format", "instanttensor")) {
    warnings.push_back(
        "vLLM loads with direct I/O (--load-format instanttensor): the page cache does nothing "
        "for it.");
  }
}

}  // namespace

bool keeps_page_cache(std::string_view filesystem) {
  return filesystem != "zfs" && filesystem != "9p" && filesystem != "fuse" &&
         filesystem.substr(0, 5) != "fuse.";
}

void add_cautions(Candidate& candidate, std::uint64_t memory_limit) {
  if (candidate.filesystem == "zfs") {
    candidate.cautions.push_back(
        "It lies on ZFS, which caches in its own ARC: what is in the page cache is a second copy, "
        "and reading the file does not keep it there. Better copy it to ext4 or XFS.");
  } else if (!keeps_page_cache(candidate.filesystem)) {
    candidate.cautions.push_back(fmt::format(
        "It lies on {}, which may drop cached pages at any time. Better copy it to a local disk.",
        candidate.filesystem));
  } else if (is_network_type(candidate.filesystem)) {
    candidate.cautions.push_back(fmt::format(
        "It lies on {}: the network serves the first read, and a change on the server makes the "
        "cached pages void. A local disk is better.",
        candidate.filesystem));
  }
  if (memory_limit != 0 && candidate.bytes > memory_limit) {
    candidate.cautions.push_back("It is larger than the memory: it cannot stay resident.");
  }
}

std::vector<std::string> warnings_of(const Proposal& proposal) {
  const Machine& machine = proposal.machine;
  std::vector<std::string> warnings;
  if (machine.models.empty()) {
    warnings.push_back(
        "No models were found. Get one (\"ollama pull llama3.2:3b\", or a GGUF file in "
        "/srv/models) and run setup again; or add the folder where your models lie to allow_roots, "
        "to warm them when you ask for it.");
  }
  if (!machine.privileged) {
    warnings.push_back(
        machine.unreadable.empty()
            ? "Not run as root, so other users' models and programs may be missing: run it with "
              "sudo to see more."
            : fmt::format("Not run as root: {} folders could not be read. Run it with sudo to see "
                          "more.",
                          machine.unreadable.size()));
  }
  if (machine.unified.unified) {
    warnings.push_back(fmt::format(
        "The GPU shares the system's memory ({}): there is no room for a copy in the page cache "
        "beside the loaded one, so nothing is kept unless you ask for it (--models).",
        machine.unified.why));
  }
  add_memory_warnings(proposal, warnings);
  add_ollama_warnings(machine, warnings);
  add_loader_warnings(machine, warnings);
  return warnings;
}

}  // namespace andiron::cli
