// SPDX-License-Identifier: MIT
#include "agent/cli/setup_machine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>

#include "agent/base/unique_fd.hpp"
#include "agent/cli/setup_model_files.hpp"

namespace andiron::cli {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

std::optional<std::uint64_t> number(std::string_view text) {
  text = trim(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// The driver's own words: "Model: \t NVIDIA ...", "GPU UUID: \t GPU-...", "Bus Location: ...".
std::vector<FoundGpu> driver_gpus(TreeReader& tree) {
  std::vector<FoundGpu> gpus;
  const std::string folder = tree.at("/proc/driver/nvidia/gpus");
  for (const TreeReader::Entry& entry : tree.list(folder)) {
    const std::string text =
        tree.read(folder + "/" + entry.name + "/information", 65536).value_or("");
    FoundGpu gpu;
    gpu.vendor = "NVIDIA";
    gpu.pci = entry.name;
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string_view line = take_line(rest);
      const std::size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string_view value = trim(line.substr(colon + 1));
      if (line.substr(0, colon) == "Model") gpu.name = value;
      // A GPU whose UUID the driver does not tell shows question marks.
      if (line.substr(0, colon) == "GPU UUID" && value.find('?') == std::string_view::npos) {
        gpu.uuid = value;
      }
    }
    if (gpus.size() < 64) gpus.push_back(std::move(gpu));
  }
  return gpus;
}

/// Display controllers of the three vendors whose GPUs run models; others are consoles.
std::vector<FoundGpu> pci_gpus(TreeReader& tree) {
  struct Vendor {
    std::string_view id;
    std::string_view name;
  };
  constexpr std::array<Vendor, 3> kVendors{
      {{"0x10de", "NVIDIA"}, {"0x1002", "AMD"}, {"0x8086", "Intel"}}};
  std::vector<FoundGpu> gpus;
  const std::string folder = tree.at("/sys/bus/pci/devices");
  for (const TreeReader::Entry& entry : tree.list(folder)) {
    const std::string device = folder + "/" + entry.name;
    const std::string kind = tree.read(device + "/class", 64).value_or("");
    if (kind.compare(0, 4, "0x03") != 0) continue;
    const std::string vendor(trim(tree.read(device + "/vendor", 64).value_or("")));
    const auto known = std::find_if(kVendors.begin(), kVendors.end(),
                                    [&](const Vendor& one) { return one.id == vendor; });
    if (known == kVendors.end() || gpus.size() >= 64) continue;
    FoundGpu gpu;
    gpu.vendor = known->name;
    gpu.pci = entry.name;
    gpu.name =
        fmt::format("{} GPU {}", known->name, trim(tree.read(device + "/device", 64).value_or("")));
    gpu.vram = number(tree.read(device + "/mem_info_vram_total", 64).value_or(""));  // amdgpu's
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

/// What a program prints, at most 64 KiB; empty when it fails or does not end in time: a driver
/// that hangs must not hang setup.
std::string output_of(const char* program, std::vector<std::string> args,
                      std::chrono::milliseconds most) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return {};
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  std::vector<char*> argv;
  for (std::string& arg : args) {
    argv.push_back(arg.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int spawned = ::posix_spawn(&child, program, &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  writer.reset();
  if (spawned != 0) return {};
  std::string output;
  const SteadyTime until = std::chrono::steady_clock::now() + most;
  bool ended = false;
  while (!ended && output.size() < 65536) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd wait{reader.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) break;
    std::array<char, 4096> block;
    const ssize_t got = ::read(reader.get(), block.data(), block.size());
    if (got > 0) output.append(block.data(), static_cast<std::size_t>(got));
    ended = got == 0;
  }
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  // A child that was killed inside a driver that hangs cannot be waited for: init reaps it.
  const pid_t reaped = ::waitpid(child, &status, ended ? 0 : WNOHANG);
  return ended && reaped == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? output
                                                                                   : std::string{};
}

std::string ask_nvidia_smi() {
  // Fixed places: root's PATH is not trusted. The last is WSL's.
  for (const char* program :
       {"/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"}) {
    if (::access(program, X_OK) != 0) continue;
    return output_of(
        program,
        {"nvidia-smi", "--query-gpu=uuid,memory.total,name", "--format=csv,noheader,nounits"},
        std::chrono::seconds(5));
  }
  return {};
}

/// Notes on each model which runtime has it open now, or was started with it.
void mark_in_use(Machine& machine) {
  // A file named on a command line counts as open: a loader that copies has closed it again.
  for (Runtime& runtime : machine.runtimes) {
    for (const std::string& path : runtime.model_files) {
      if (const auto file = found_file(path)) runtime.open.emplace(file->dev, file->ino);
    }
  }
  for (FoundModel& model : machine.models) {
    for (const Runtime& runtime : machine.runtimes) {
      const bool uses =
          std::any_of(model.files.begin(), model.files.end(), [&](const FoundFile& file) {
            return runtime.open.contains({file.dev, file.ino});
          });
      const bool named = model.kind == StoreKind::hugging_face &&
                         std::find(runtime.model_names.begin(), runtime.model_names.end(),
                                   model.label) != runtime.model_names.end();
      const bool folder = std::find(runtime.model_files.begin(), runtime.model_files.end(),
                                    model.path_source) != runtime.model_files.end();
      if (!uses && !named && !folder) continue;
      if (model.in_use_by.size() >= 8) break;
      const std::string& container = runtime.process.container.name;
      model.in_use_by.push_back(container.empty()
                                    ? fmt::format("{} (pid {})", runtime.kind, runtime.process.pid)
                                    : fmt::format("{} (pid {}, container {})", runtime.kind,
                                                  runtime.process.pid, container));
      std::vector<std::string>& containers = model.in_use_containers;
      if (!container.empty() &&
          std::find(containers.begin(), containers.end(), container) == containers.end()) {
        containers.push_back(container);
      }
    }
  }
}

}  // namespace

std::vector<FoundGpu> scan_gpus(TreeReader& tree, const std::string& nvidia_smi) {
  std::vector<FoundGpu> gpus = driver_gpus(tree);
  for (FoundGpu& gpu : pci_gpus(tree)) {
    const bool known = std::any_of(gpus.begin(), gpus.end(),
                                   [&](const FoundGpu& other) { return other.pci == gpu.pci; });
    if (!known) gpus.push_back(std::move(gpu));
  }
  std::string_view rest = nvidia_smi;
  while (!rest.empty() && gpus.size() < 64) {  // "GPU-..., 24576, NVIDIA GeForce RTX 3090"; MiB
    const std::string_view line = take_line(rest);
    const std::size_t first = line.find(',');
    const std::size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
    if (second == std::string_view::npos || line.compare(0, 4, "GPU-") != 0) continue;
    const std::string_view uuid = trim(line.substr(0, first));
    auto gpu = std::find_if(gpus.begin(), gpus.end(),
                            [&](const FoundGpu& one) { return one.uuid == uuid; });
    if (gpu == gpus.end()) {
      gpus.push_back(
          {"NVIDIA", std::string(trim(line.substr(second + 1))), std::string(uuid), "", {}});
      gpu = gpus.end() - 1;
    }
    const auto mib = number(line.substr(first + 1, second - first - 1));
    if (mib && *mib < (std::uint64_t{1} << 40)) gpu->vram = *mib << 20;
  }
  return gpus;
}

Machine scan_machine(TreeReader& tree, const catalog::Places& places,
                     const std::map<std::string, std::string>& environment) {
  Machine machine;
  if (auto memory = os::read_memory(tree.at("/proc"), tree.at("/sys/fs/cgroup"))) {
    machine.memory = *std::move(memory);
  }
  machine.unified = os::detect_unified_memory(tree.at("/sys"), tree.at("/proc"));
  machine.gpus = scan_gpus(tree, tree.root().empty() ? ask_nvidia_smi() : std::string{});
  ProcessFindings processes = scan_processes(tree);
  machine.runtimes = std::move(processes.runtimes);
  machine.tenants = std::move(processes.tenants);
  machine.containers = std::move(processes.containers);
  StoreFindings stores = scan_stores(tree, machine.runtimes, places, environment);
  machine.stores = std::move(stores.stores);
  machine.models = std::move(stores.models);
  machine.notes = std::move(stores.notes);
  machine.notes.insert(machine.notes.end(), tree.cut_short().begin(), tree.cut_short().end());
  machine.unreadable.assign(tree.unreadable().begin(), tree.unreadable().end());
  machine.privileged = ::geteuid() == 0;
  // Without root the agent's limits are not ours.
  if (machine.privileged) machine.memlock = os::memlock_limit();
  mark_in_use(machine);
  return machine;
}

}  // namespace andiron::cli
