// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace andiron::testing {

/// A machine's files in a folder: what `setup --root` looks at.
class MachineTree {
 public:
  /// With so much memory, one disk on /, and nothing else.
  explicit MachineTree(std::uint64_t memory_bytes = std::uint64_t{16} << 30);

  std::string root() const { return dir_.path().string(); }
  std::string at(std::string_view path) const { return root() + std::string(path); }
  void write(std::string_view path, std::string_view content) const;
  void link(std::string_view target, std::string_view path) const;

  /// Weights with `seed` in them, so that no two are the same bytes.
  std::string gguf(std::string_view path, int seed, std::size_t floats = 256) const;
  std::string safetensors(std::string_view path, int seed) const;
  /// Adds a model to an Ollama store; gives the blob's path.
  std::string ollama(std::string_view store, std::string_view name, std::string_view tag, int seed,
                     std::size_t floats = 256) const;
  /// Adds "org/name" with one safetensors file to a Hugging Face cache; gives the blob's path.
  std::string hugging_face(std::string_view cache, std::string_view org, std::string_view name,
                           int seed) const;

  struct Process {
    int pid = 0;
    std::string comm;
    std::string exe;
    std::vector<std::string> args;
    std::string cgroup = "/system.slice/x.service";
    std::vector<std::string> environment = {};
    std::vector<std::string> maps = {};  // files of the tree that it has mapped
    std::string mountinfo = {};
  };
  void process(const Process& process) const;

  /// Sets when a file was last used.
  void used(const std::string& path, std::int64_t seconds_ago) const;

 private:
  TempDir dir_;
};

std::string gguf_bytes(int seed, std::size_t floats);

}  // namespace andiron::testing
