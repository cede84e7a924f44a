// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/cli/setup_processes.hpp"
#include "agent/cli/setup_stores.hpp"
#include "agent/cli/setup_tree.hpp"
#include "agent/os/memory.hpp"

namespace andiron::cli {

struct FoundGpu {
  std::string vendor;  // "NVIDIA", "AMD", "Intel"
  std::string name;
  std::string uuid;  // NVIDIA's; empty where it is not known
  std::string pci;   // "0000:01:00.0"
  std::optional<std::uint64_t> vram;
};

/// What `setup` found out about a machine. Every string that came from the machine is as it was
/// there: escape_text() before it is shown.
struct Machine {
  std::optional<os::MemoryView> memory;  // nullopt where it cannot be read
  os::UnifiedMemory unified;
  std::vector<FoundGpu> gpus;
  std::vector<Runtime> runtimes;
  std::vector<Container> containers;
  std::vector<FoundTenant> tenants;
  std::vector<FoundStore> stores;
  std::vector<FoundModel> models;
  bool privileged = false;               // setup runs as root
  std::optional<std::uint64_t> memlock;  // where locking memory is limited even for root
  std::vector<std::string> unreadable;   // folders that permissions kept closed
  std::vector<std::string> notes;        // sentences for people, escaped
};

/// Looks at the whole machine: see ScanLimits for how far. Blocks, up to some seconds.
/// `places` are those that the resolver knows of.
Machine scan_machine(TreeReader& tree, const catalog::Places& places,
                     const std::map<std::string, std::string>& environment);

/// GPUs out of the driver's files and PCI's. `nvidia_smi` is what `nvidia-smi
/// --query-gpu=uuid,memory.total,name --format=csv,noheader,nounits` printed, or empty.
std::vector<FoundGpu> scan_gpus(TreeReader& tree, const std::string& nvidia_smi);

}  // namespace andiron::cli
