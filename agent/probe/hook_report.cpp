// SPDX-License-Identifier: MIT
#include "agent/probe/hook_report.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "agent/base/json_walk.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::probe {
namespace {

using Kind = JsonEvent::Kind;

constexpr std::size_t kMaxDepth = 16;
/// PID_MAX_LIMIT.
constexpr std::uint64_t kMaxPid = std::uint64_t{1} << 22;
constexpr std::size_t kMaxPath = 4096;
/// A bundle's config.json is 10 to 100 KiB; Podman's list has 300 bytes or so for each container.
constexpr std::size_t kMaxBundleFile = 2 * 1024 * 1024;

/// Where orchestrators put what people call a container, best first: CRI-O, containerd's CRI
/// plugin, nerdctl.
constexpr std::array<std::string_view, 4> kNameKeys{
    "io.kubernetes.container.name", "io.kubernetes.cri-o.ContainerName",
    "io.kubernetes.cri.container-name", "nerdctl/name"};

/// What "io.container.manager" says, in our words.
std::string runtime_of(std::string_view manager) {
  if (manager == "libpod") return "podman";
  return is_container_word(manager) ? std::string(manager) : "oci";
}

/// The names that annotations have, the best of them.
class AnnotatedName {
 public:
  void see(std::string_view key, std::string_view value) {
    for (std::size_t i = 0; i < rank_; ++i) {
      if (key != kNameKeys[i] || !is_container_word(value)) continue;
      name_ = value;
      rank_ = i;
    }
  }
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  std::size_t rank_ = kNameKeys.size();
};

std::optional<ContainerEvent::Kind> kind_of(std::string_view status) {
  for (const std::string_view word : {"creating", "created", "running", "started"}) {
    if (status == word) return ContainerEvent::Kind::started;
  }
  for (const std::string_view word : {"stopped", "exited"}) {
    if (status == word) return ContainerEvent::Kind::stopped;
  }
  return std::nullopt;
}

Error bad(const std::string& what) { return make_error(Errc::bad_request, what); }

/// A file that its owner may be writing or have replaced by anything: regular, and bounded.
std::optional<std::string> read_small(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0 ||
      static_cast<std::size_t>(info.st_size) > kMaxBundleFile) {
    return std::nullopt;
  }
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

/// [{"id": ID, "names": ["ollama"]}, ...]: the list of containers/storage.
std::string name_in_list(const std::string& text, const std::string& id) {
  std::string found;
  std::string entry_id;
  std::string entry_name;
  const auto walked = walk_json(text, kMaxDepth, [&](const JsonEvent& json) -> Result<void> {
    const auto& path = json.path;
    if (json.kind == Kind::string && path.size() == 2 && path[1] == "id") entry_id = json.text;
    if (json.kind == Kind::string && path.size() == 3 && path[1] == "names" && entry_name.empty() &&
        is_container_word(json.text)) {
      entry_name = json.text;
    }
    if (json.kind == Kind::end_object && path.size() == 1) {
      if (entry_id == id) found = std::move(entry_name);
      entry_id.clear();
      entry_name.clear();
    }
    return {};
  });
  return walked ? found : "";
}

std::string name_in_config(const std::string& text, const std::string& id) {
  AnnotatedName annotated;
  std::string hostname;
  const auto walked = walk_json(text, kMaxDepth, [&](const JsonEvent& json) -> Result<void> {
    if (json.kind != Kind::string) return {};
    if (json.path.size() == 2 && json.path[0] == "annotations") {
      annotated.see(json.path[1], json.text);
    } else if (json.path.size() == 1 && json.path[0] == "hostname") {
      hostname = json.text;
    }
    return {};
  });
  if (!walked) return "";
  if (!annotated.name().empty()) return annotated.name();
  const bool set_by_people = is_container_word(hostname) && !id.starts_with(hostname);
  return set_by_people ? hostname : "";
}

}  // namespace

Result<HookReport> parse_hook_report(std::string_view text, WallTime now) {
  if (text.size() > kMaxHookReport) return make_error(Errc::too_large, "a hook's report");
  HookReport report;
  ContainerEvent& event = report.event;
  event.runtime = "oci";
  event.time = now;
  std::string status;
  std::string name;
  AnnotatedName annotated;
  bool object = false;
  const auto walked = walk_json(text, kMaxDepth, [&](const JsonEvent& json) -> Result<void> {
    const auto& path = json.path;
    if (path.empty()) object = object || json.kind == Kind::begin_object;
    if (path.size() == 2 && path[0] == "annotations" && json.kind == Kind::string) {
      annotated.see(path[1], json.text);
      if (path[1] == "io.container.manager") event.runtime = runtime_of(json.text);
    }
    if (path.size() != 1) return {};
    const std::string& key = path[0];
    if (key == "pid" && json.kind == Kind::natural && json.number > 0 && json.number <= kMaxPid) {
      event.pid = static_cast<pid_t>(json.number);
    }
    for (auto& [word, value] : {std::pair<std::string_view, std::string*>{"id", &event.id},
                                {"name", &name},
                                {"runtime", &event.runtime}}) {
      if (key != word || json.kind != Kind::string) continue;
      if (!is_container_word(json.text)) {
        return bad("'" + key + "' must have 1 to 128 of A-Z a-z 0-9 _ . : @ -");
      }
      *value = json.text;
    }
    if (key == "status" && json.kind == Kind::string) status = json.text.substr(0, 32);
    if (key == "bundle" && json.kind == Kind::string && json.text.starts_with('/') &&
        json.text.size() < kMaxPath && json.text.find('\0') == std::string_view::npos) {
      report.bundle = json.text;
    }
    return {};
  });
  if (!walked) {
    return walked.error().errc() == Errc::bad_request ? walked.error()
                                                      : bad("a container's state has to be JSON");
  }
  if (!object) return bad("a container's state has to be a JSON object");
  if (event.id.empty() && name.empty()) return bad("'id' or 'name' is missing");
  const auto kind = kind_of(status);
  if (!kind) {
    return bad("'status' must be \"running\" (or \"created\") or \"stopped\"");
  }
  event.kind = *kind;
  event.name = name.empty() ? annotated.name() : std::move(name);
  return report;
}

std::string name_from_bundle(const std::string& bundle, const std::string& id) {
  if (id.empty() || !bundle.starts_with('/')) return "";
  // STORAGE/overlay-containers/ID/userdata is Podman's bundle.
  const std::filesystem::path folder(bundle);
  const std::filesystem::path list = folder.parent_path().parent_path();
  for (const char* file : {"containers.json", "volatile-containers.json"}) {
    const auto text = read_small((list / file).string());
    if (!text) continue;
    if (std::string name = name_in_list(*text, id); !name.empty()) return name;
  }
  const auto text = read_small((folder / "config.json").string());
  return text ? name_in_config(*text, id) : "";
}

}  // namespace andiron::probe
