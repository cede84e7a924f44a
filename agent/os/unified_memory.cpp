// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "agent/os/memory.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

struct PciGpu {
  std::string_view vendor;
  std::string_view device;
  std::string_view name;
};

/// GPUs on PCI that have no memory of their own and run models. The GB10 of a DGX Spark and its
/// siblings is "GB20B [GB10] [10de:2e12]" to lspci; its DMI names differ from maker to maker, and
/// nvidia-smi reports no memory for it (docs.nvidia.com/dgx/dgx-spark/known-issues.html).
/// Integrated graphics of Intel and AMD are not here: where they only drive a screen, models run
/// from the page cache, and to take a machine for unified would switch its warming off.
constexpr std::array<PciGpu, 1> kUnifiedGpus{{{"0x10de", "0x2e12", "NVIDIA GB10"}}};

/// PCI devices of one machine: far more than any has.
constexpr int kDeviceLimit = 4096;

/// All Tegra chips share their memory between CPU and GPU; Jetson boards say "nvidia,tegra234" and
/// the like in the root node (Documentation/devicetree/bindings/arm/tegra.yaml).
std::string tegra_of(std::string_view compatible) {
  for (const std::string_view name : split(compatible, '\0')) {
    if (name.starts_with("nvidia,tegra")) return std::string(name);
  }
  return "";
}

}  // namespace

UnifiedMemory detect_unified_memory(const std::string& sys_root, const std::string& proc_root) {
  for (const std::string& path :
       {sys_root + "/firmware/devicetree/base/compatible", proc_root + "/device-tree/compatible"}) {
    const std::string tegra = tegra_of(read_word(path).value_or(""));
    if (!tegra.empty()) {
      return {true, "the device tree names " + tegra + ", whose GPU uses the system's memory"};
    }
  }
  std::error_code error;
  std::filesystem::directory_iterator devices(sys_root + "/bus/pci/devices", error);
  for (int seen = 0;
       !error && devices != std::filesystem::directory_iterator{} && seen < kDeviceLimit;
       devices.increment(error), ++seen) {
    const std::string folder = devices->path().string();
    const std::string vendor = read_word(folder + "/vendor").value_or("");
    const std::string device = read_word(folder + "/device").value_or("");
    for (const PciGpu& gpu : kUnifiedGpus) {
      if (gpu.vendor == vendor && gpu.device == device) {
        return {true, std::string(gpu.name) + " at PCI " + devices->path().filename().string() +
                          ", which uses the system's memory"};
      }
    }
  }
  return {false, "no GPU is known here that shares the system's memory"};
}

}  // namespace andiron::os
