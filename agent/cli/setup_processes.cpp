// SPDX-License-Identifier: MIT
#include "agent/cli/setup_processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "agent/cli/setup_json.hpp"
#include "agent/os/mounts.hpp"

namespace andiron::cli {
namespace {

constexpr std::size_t kMostArgumentBytes = std::size_t{256} << 10;
constexpr std::size_t kMostArguments = 1024;
constexpr std::size_t kMostMapsBytes = std::size_t{8} << 20;  // some 80,000 mappings
constexpr std::size_t kMostOpenFiles = 4096;
constexpr std::size_t kMostContainers = 1000;

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0: no slash, all of it.
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

std::vector<std::string> split(std::string_view text, char separator, std::size_t most) {
  std::vector<std::string> parts;
  while (!text.empty() && parts.size() < most) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

template <class Number>
std::optional<Number> number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The 64 hex digits that name a container in a cgroup path: "/docker/ID",
/// "/system.slice/docker-ID.scope", "/machine.slice/libpod-ID.scope/container".
std::string container_id(std::string_view cgroup) {
  constexpr std::size_t kLength = 64;
  std::size_t run = 0;
  for (std::size_t i = 0; i <= cgroup.size(); ++i) {
    const bool hex = i < cgroup.size() && contains("0123456789abcdef", cgroup.substr(i, 1));
    if (hex) {
      ++run;
      continue;
    }
    if (run == kLength) return std::string(cgroup.substr(i - kLength, kLength));
    run = 0;
  }
  return {};
}

std::string read_cgroup(TreeReader& tree, const std::string& folder) {
  std::string path;
  const std::string text = tree.read(folder + "/cgroup", 65536).value_or("");
  for (const std::string& line : split(text, '\n', 64)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string here = line.substr(second + 1);
    if (controllers == "memory") return here;
    if (controllers.empty() && path.empty()) path = here;
  }
  return path;
}

std::optional<ProcessView> view(TreeReader& tree, std::int64_t pid) {
  const std::string folder = tree.at(fmt::format("/proc/{}", pid));
  ProcessView process;
  process.pid = pid;
  process.args =
      split(tree.read(folder + "/cmdline", kMostArgumentBytes).value_or(""), '\0', kMostArguments);
  if (process.args.empty()) return std::nullopt;  // a kernel thread, or gone
  process.comm = tree.read(folder + "/comm", 256).value_or("");
  while (!process.comm.empty() && process.comm.back() == '\n')
    process.comm.pop_back();
  process.exe = tree.read_link(folder + "/exe").value_or("");
  constexpr std::string_view kDeleted = " (deleted)";  // replaced by an update while it runs
  if (process.exe.size() > kDeleted.size() && process.exe.ends_with(kDeleted)) {
    process.exe.resize(process.exe.size() - kDeleted.size());
  }
  process.cgroup = read_cgroup(tree, folder);
  process.container.id = container_id(process.cgroup);
  return process;
}

/// Container names by id, of Docker and Podman, as far as their files may be read.
class ContainerNames {
 public:
  explicit ContainerNames(TreeReader& tree) : tree_(tree) {}

  std::string of(const std::string& id) {
    const auto known = names_.find(id);
    if (known != names_.end()) return known->second;
    if (names_.size() >= kMostContainers) return {};
    std::string name;
    const std::string docker = tree_.at("/var/lib/docker/containers/" + id + "/config.v2.json");
    if (const auto text = tree_.read(docker, std::size_t{4} << 20)) name = docker_name(*text);
    if (name.empty()) name = podman(id);
    return names_[id] = name;
  }

 private:
  std::string podman(const std::string& id) {
    if (!podman_) {
      podman_.emplace();
      std::vector<std::string> storages{tree_.at("/var/lib/containers/storage")};
      for (const auto& home : tree_.list(tree_.at("/home"))) {
        storages.push_back(tree_.at("/home/" + home.name + "/.local/share/containers/storage"));
      }
      for (const std::string& storage : storages) {
        for (const char* file : {"containers.json", "volatile-containers.json"}) {
          const auto text =
              tree_.read(storage + "/overlay-containers/" + file, std::size_t{8} << 20);
          if (text) podman_->merge(podman_names(*text));
        }
      }
    }
    const auto found = podman_->find(id);
    return found == podman_->end() ? std::string{} : found->second;
  }

  TreeReader& tree_;
  std::map<std::string, std::string> names_;
  std::optional<std::map<std::string, std::string>> podman_;
};

/// The value of an option: "--model X", "--model=X".
std::optional<std::string> option(const std::vector<std::string>& args, std::size_t i,
                                  std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (args[i] == name && i + 1 < args.size()) return args[i + 1];
    if (starts_with(args[i], name) && args[i].size() > name.size() && args[i][name.size()] == '=') {
      return args[i].substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

bool is_below(std::string_view path, std::string_view folder) {
  return folder == "/" || path == folder ||
         (starts_with(path, folder) && path.size() > folder.size() && path[folder.size()] == '/');
}

/// Turns paths of a process into paths of the machine, through the mounts of both.
class PathsOf {
 public:
  PathsOf(TreeReader& tree, const ProcessView& process)
      : tree_(tree), folder_(tree.at(fmt::format("/proc/{}", process.pid))) {
    contained_ = !process.container.id.empty();
    if (!contained_) return;
    mounts_ =
        os::parse_mountinfo(tree.read(folder_ + "/mountinfo", std::size_t{4} << 20).value_or(""));
  }

  /// With the tree's prefix; nullopt for what lies inside a container's own image.
  std::optional<std::string> on_machine(std::string path) const {
    if (path.empty()) return std::nullopt;
    if (path.front() != '/') {
      const auto base = tree_.read_link(folder_ + "/cwd");
      if (!base) return std::nullopt;
      path = *base + "/" + path;
    }
    if (!contained_) return tree_.at(path);
    const os::Mount* best = nullptr;
    for (const os::Mount& mount : mounts_) {
      if (is_below(path, mount.mount_point) &&
          (best == nullptr || mount.mount_point.size() >= best->mount_point.size())) {
        best = &mount;
      }
    }
    if (best == nullptr || best->mount_point == "/") return std::nullopt;
    const auto folder = source_of(*best);
    if (!folder) return std::nullopt;
    return *folder + path.substr(best->mount_point.size());
  }

  /// The machine's folders that are mounted into the container: binds and volumes.
  std::vector<std::string> mounted_folders() const {
    std::vector<std::string> folders;
    for (const os::Mount& mount : mounts_) {
      constexpr std::array<std::string_view, 4> kNotData{"/proc", "/sys", "/dev", "/etc"};
      const bool system =
          mount.mount_point == "/" || mount.type == "tmpfs" || mount.type == "overlay" ||
          std::any_of(kNotData.begin(), kNotData.end(),
                      [&](std::string_view top) { return is_below(mount.mount_point, top); });
      if (system || folders.size() >= 32) continue;
      if (auto folder = source_of(mount); folder && tree_.is_folder(*folder)) {
        folders.push_back(*std::move(folder));
      }
    }
    return folders;
  }

 private:
  /// Where the machine has what is mounted: the mount of the same device whose part of the file
  /// system holds it.
  std::optional<std::string> source_of(const os::Mount& inner) const {
    for (const os::Mount& outer : tree_.mounts()) {
      if (outer.device != inner.device || !is_below(inner.root, outer.root)) continue;
      const std::string rest = outer.root == "/" ? (inner.root == "/" ? "" : inner.root)
                                                 : inner.root.substr(outer.root.size());
      return tree_.at((outer.mount_point == "/" ? "" : outer.mount_point) + rest);
    }
    return std::nullopt;
  }

  TreeReader& tree_;
  std::string folder_;
  bool contained_ = false;
  std::vector<os::Mount> mounts_;
};

/// (dev, ino) of mapped files, by the lines "start-end perms offset major:minor inode path".
void add_mapped(TreeReader& tree, const std::string& folder, Runtime& runtime) {
  const std::string maps = tree.read(folder + "/maps", kMostMapsBytes).value_or("");
  std::string_view rest = maps;
  while (!rest.empty() && runtime.open.size() < kMostOpenFiles) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::vector<std::string> fields = split(rest.substr(0, end), ' ', 5);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (fields.size() < 5) continue;
    const std::size_t colon = fields[3].find(':');
    if (colon == std::string::npos) continue;
    const auto major = number<unsigned>(std::string_view(fields[3]).substr(0, colon), 16);
    const auto minor = number<unsigned>(std::string_view(fields[3]).substr(colon + 1), 16);
    const auto ino = number<std::uint64_t>(fields[4]);
    if (major && minor && ino && *ino != 0) runtime.open.emplace(makedev(*major, *minor), *ino);
  }
}

void add_open(TreeReader& tree, const std::string& folder, Runtime& runtime) {
  for (const TreeReader::Entry& entry : tree.list(folder + "/fd")) {
    struct stat info {};
    if (runtime.open.size() >= kMostOpenFiles) return;
    if (::stat((folder + "/fd/" + entry.name).c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      runtime.open.emplace(info.st_dev, info.st_ino);
    }
  }
}

void add_environment(TreeReader& tree, const std::string& folder, Runtime& runtime) {
  // Only these are kept: an environment holds secrets.
  constexpr std::array<std::string_view, 8> kWanted{
      "HOME",    "OLLAMA_MODELS", "OLLAMA_KEEP_ALIVE", "OLLAMA_MAX_LOADED_MODELS",
      "HF_HOME", "HF_HUB_CACHE",  "LLAMA_CACHE",       "XDG_CACHE_HOME"};
  const std::string text = tree.read(folder + "/environ", std::size_t{1} << 20).value_or("");
  for (const std::string& line : split(text, '\0', 4096)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals);
    if (std::find(kWanted.begin(), kWanted.end(), name) != kWanted.end()) {
      runtime.environment[name] = line.substr(equals + 1);
    }
  }
}

void add_named(TreeReader& tree, Runtime& runtime) {
  const std::vector<std::string>& args = runtime.process.args;
  const PathsOf paths(tree, runtime.process);
  const auto add_path = [&](const std::string& path, std::vector<std::string>& list) {
    if (auto found = paths.on_machine(path)) list.push_back(*std::move(found));
  };
  for (std::size_t i = 1; i < args.size(); ++i) {
    if (const auto model = option(args, i, {"-m", "--model", "--mmproj", "-mm", "--model-draft"})) {
      if (runtime.kind == "vllm" && !starts_with(*model, "/") && !starts_with(*model, ".")) {
        runtime.model_names.push_back(*model);
      } else {
        add_path(*model, runtime.model_files);
      }
    }
    if (const auto repository = option(args, i, {"-hf", "-hfr", "--hf-repo"})) {
      runtime.model_names.push_back(repository->substr(0, repository->find(':')));
    }
    if (const auto folder = option(args, i,
                                   {"--models-dir", "--models-path", "--model-path",
                                    "--download-dir", "--data-dir", "--cache-folder"})) {
      add_path(*folder, runtime.folders);
    }
    // "vllm serve org/name"
    if (runtime.kind == "vllm" && args[i] == "serve" && i + 1 < args.size()) {
      if (starts_with(args[i + 1], "/"))
        add_path(args[i + 1], runtime.model_files);
      else
        runtime.model_names.push_back(args[i + 1]);
    }
  }
  for (const char* name : {"OLLAMA_MODELS", "HF_HUB_CACHE", "LLAMA_CACHE"}) {
    const auto value = runtime.environment.find(name);
    if (value != runtime.environment.end()) add_path(value->second, runtime.folders);
  }
  if (const auto value = runtime.environment.find("HF_HOME"); value != runtime.environment.end()) {
    add_path(value->second + "/hub", runtime.folders);
  }
  for (std::string& folder : paths.mounted_folders()) {
    runtime.folders.push_back(std::move(folder));
  }
}

struct TenantRule {
  std::string_view name;
  std::array<std::string_view, 3>
      binaries;  // base names of running binaries, or what comm begins with
  std::array<std::string_view, 2> installed;
  std::string_view match_exe;
  bool by_cgroup;  // its GPU work runs in many binaries: the cgroup is the only mark
};

// Paths as these programs' packages and images have them; `match_exe` sees a process as its own
// container does, so one rule serves both.
constexpr std::array<TenantRule, 6> kTenantRules{{
    {"jellyfin",
     {"jellyfin", "jellyfin-ffmpeg"},
     {"/usr/lib/jellyfin-ffmpeg/ffmpeg"},
     "*/jellyfin-ffmpeg/ffmpeg",
     false},
    {"plex",
     {"Plex Media Server", "Plex Transcoder", "Plex Media Serv"},
     {"/usr/lib/plexmediaserver/Plex Transcoder"},
     "*/Plex Transcoder",
     false},
    {"handbrake",
     {"HandBrakeCLI", "ghb"},
     {"/usr/bin/HandBrakeCLI", "/usr/bin/ghb"},
     "*/HandBrakeCLI",
     false},
    {"tdarr",
     {"Tdarr_Node", "Tdarr_Server", "tdarr-ffmpeg"},
     {"/opt/tdarr/Tdarr_Node/Tdarr_Node"},
     "*/tdarr-ffmpeg",
     false},
    {"frigate", {"frigate"}, {}, "", true},
    {"ffmpeg", {"ffmpeg"}, {"/usr/bin/ffmpeg", "/usr/local/bin/ffmpeg"}, "*/bin/ffmpeg", false},
}};

bool runs(const TenantRule& rule, const ProcessView& process) {
  const std::string_view exe = base_name(process.exe);
  const std::string_view first = base_name(process.args.front());
  if (rule.by_cgroup) return starts_with(process.comm, rule.binaries[0]);
  if (rule.name == "ffmpeg" && contains(process.exe, "jellyfin-ffmpeg")) return false;
  if (rule.name == "jellyfin" && contains(process.exe, "/jellyfin-ffmpeg/")) return true;
  return std::any_of(rule.binaries.begin(), rule.binaries.end(), [&](std::string_view binary) {
    return !binary.empty() && (exe == binary || first == binary || process.comm == binary);
  });
}

FoundTenant tenant_of(const TenantRule& rule, const ProcessView& process) {
  FoundTenant tenant;
  tenant.name = rule.name;
  tenant.match_exe = rule.match_exe;
  tenant.why = fmt::format("running now, pid {}", process.pid);
  if (!process.container.id.empty()) {
    const std::string& name = process.container.name;
    tenant.why += ", in container " + (name.empty() ? process.container.id.substr(0, 12) : name);
  }
  if (!rule.by_cgroup) return tenant;
  if (process.container.id.empty() || contains(process.cgroup, rule.name)) {
    tenant.match_cgroup = fmt::format("*{}*", rule.name);
  } else {
    tenant.match_cgroup = fmt::format("*{}*", process.container.id);
    tenant.caution =
        "This names the container as it is now; run setup again when it has been recreated.";
  }
  return tenant;
}

}  // namespace

std::string_view runtime_kind(const ProcessView& process) {
  if (process.args.empty()) return "";
  struct Binary {
    std::string_view name;
    std::string_view kind;
  };
  constexpr std::array<Binary, 12> kBinaries{{{"ollama", "ollama"},
                                              {"llama-server", "llama-server"},
                                              {"llama-swap", "llama-swap"},
                                              {"vllm", "vllm"},
                                              {"local-ai", "localai"},
                                              {"localai", "localai"},
                                              {"lm-studio", "lm-studio"},
                                              {"LM Studio", "lm-studio"},
                                              {"llmster", "lm-studio"},
                                              {"lms", "lm-studio"},
                                              {"koboldcpp", "koboldcpp"},
                                              {"wyoming-faster-whisper", "faster-whisper"}}};
  const std::string_view exe = base_name(process.exe);
  const std::string_view first = base_name(process.args.front());
  for (const Binary& binary : kBinaries) {
    if (exe == binary.name || first == binary.name) return binary.kind;
  }
  if (starts_with(process.comm, "VLLM::")) return "vllm";
  if (starts_with(process.comm, "frigate")) return "frigate";

  const bool python = starts_with(exe, "python") || starts_with(first, "python") ||
                      first == "gunicorn" || first == "uvicorn";
  if (!python) return "";
  // The script or module is among the first arguments; later ones are data.
  const std::size_t last = std::min<std::size_t>(process.args.size(), 5);
  for (std::size_t i = 0; i < last; ++i) {
    std::string_view arg = process.args[i];
    const std::string_view script = base_name(arg);
    if (script == "vllm" || starts_with(arg, "vllm.entrypoints")) return "vllm";
    if (contains(arg, "immich_ml") || contains(arg, "immich_machine_learning")) return "immich-ml";
    if (contains(arg, "faster_whisper") || contains(arg, "faster-whisper")) return "faster-whisper";
    if (arg == "frigate" && i > 0 && process.args[i - 1] == "-m") return "frigate";
    if (contains(arg, "ComfyUI") || contains(arg, "comfyui")) return "comfyui";
  }
  return "";
}

ProcessFindings scan_processes(TreeReader& tree) {
  ProcessFindings findings;
  ContainerNames names(tree);
  std::map<std::string, FoundTenant> tenants;
  std::map<std::string, Container> containers;
  std::vector<std::int64_t> pids;
  for (const TreeReader::Entry& entry : tree.list(tree.at("/proc"))) {
    const auto pid = number<std::int64_t>(entry.name);
    if (pid && pids.size() < tree.limits().processes) pids.push_back(*pid);
  }
  std::sort(pids.begin(), pids.end());
  for (const std::int64_t pid : pids) {
    if (tree.out_of_time()) break;
    std::optional<ProcessView> process = view(tree, pid);
    if (!process) continue;
    if (!process->container.id.empty()) {
      process->container.name = names.of(process->container.id);
      if (containers.size() < kMostContainers) {
        containers.emplace(process->container.id, process->container);
      }
    }
    for (const TenantRule& rule : kTenantRules) {
      if (runs(rule, *process)) tenants.emplace(rule.name, tenant_of(rule, *process));
    }
    const std::string_view kind = runtime_kind(*process);
    if (kind.empty() || findings.runtimes.size() >= 256) continue;
    Runtime runtime;
    runtime.kind = kind;
    runtime.process = *std::move(process);
    const std::string folder = tree.at(fmt::format("/proc/{}", pid));
    add_environment(tree, folder, runtime);
    add_mapped(tree, folder, runtime);
    add_open(tree, folder, runtime);
    add_named(tree, runtime);
    findings.runtimes.push_back(std::move(runtime));
  }
  for (const TenantRule& rule : kTenantRules) {
    const auto running = tenants.find(std::string(rule.name));
    if (running != tenants.end()) {
      findings.tenants.push_back(running->second);
      continue;
    }
    for (const std::string_view path : rule.installed) {
      struct stat info {};
      if (path.empty() || ::stat(tree.at(path).c_str(), &info) != 0) continue;
      findings.tenants.push_back({std::string(rule.name), std::string(rule.match_exe), "",
                                  fmt::format("installed: {}", path), ""});
      break;
    }
  }
  for (auto& [id, container] : containers) {
    findings.containers.push_back(std::move(container));
  }
  return findings;
}

}  // namespace andiron::cli
