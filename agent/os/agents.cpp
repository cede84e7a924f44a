// SPDX-License-Identifier: MIT
#include "agent/os/agents.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "andirond";
/// More than two are somebody's game.
constexpr std::size_t kMostAgents = 16;

/// The value of a line "Key:\tvalue" of /proc/PID/status.
std::optional<std::string_view> value_of(std::string_view status, std::string_view key) {
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with(':')) {
      return trim(line.substr(key.size() + 1));
    }
  }
  return std::nullopt;
}

/// How many process namespaces a process is in, counted from ours: 1 is ours alone.
std::size_t depth_of(std::string_view status) {
  return fields(value_of(status, "NSpid").value_or("")).size();
}

/// "Uid: real effective saved file-system".
bool is_root(std::string_view status) {
  const std::vector<std::string_view> ids = fields(value_of(status, "Uid").value_or(""));
  return ids.size() == 4 && std::all_of(ids.begin(), ids.end(), [](auto id) { return id == "0"; });
}

/// The program, as far as this process may see it; what replaced it in an upgrade is no matter.
bool is_other_program(const std::string& folder) {
  std::error_code error;
  const std::string program = fs::read_symlink(folder + "/exe", error).string();
  if (error) return false;
  std::string_view name = std::string_view(program).substr(program.rfind('/') + 1);
  constexpr std::string_view kDeleted = " (deleted)";
  if (name.ends_with(kDeleted)) name.remove_suffix(kDeleted.size());
  return name != kName;
}

std::string runtime_dir_of(const std::string& folder) {
  constexpr std::string_view kOption = "--runtime-dir";
  const std::string text = read_text(folder + "/cmdline").value_or("");
  const std::vector<std::string_view> words = split(text, '\0');
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kOption && i + 1 < words.size()) return std::string(words[i + 1]);
    if (words[i].starts_with(kOption) && words[i].substr(kOption.size()).starts_with('=')) {
      return std::string(words[i].substr(kOption.size() + 1));
    }
  }
  return {};
}

/// Of the hierarchy that charges memory.
std::string cgroup_of(const std::string& folder) {
  std::string unified;
  const std::string text = read_text(folder + "/cgroup").value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (controllers == "memory") return path;
    if (controllers.empty()) unified = std::move(path);
  }
  return unified;
}

/// pid, state and start of "PID (NAME) STATE ...", where NAME may have spaces and brackets.
struct Stat {
  pid_t pid = 0;
  bool dead = false;
  std::uint64_t started = 0;
};
std::optional<Stat> parse_stat(std::string_view text) {
  constexpr std::size_t kStarted = 19;  // the 22nd field, the 20th behind the name
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> rest = fields(text.substr(name_end + 1));
  if (rest.size() <= kStarted) return std::nullopt;
  const auto pid = parse_number(text.substr(0, std::min(text.find(' '), text.size())));
  const auto started = parse_number(rest[kStarted]);
  if (!pid || !started) return std::nullopt;
  return Stat{static_cast<pid_t>(*pid), rest[0] == "Z" || rest[0] == "X", *started};
}

std::optional<AgentProcess> view(const std::string& folder, std::size_t own_depth) {
  // The name first: it tells nearly all processes apart for one read.
  if (read_word(folder + "/comm") != kName || is_other_program(folder)) return std::nullopt;
  const Result<std::string> status = read_text(folder + "/status");
  if (!status || !is_root(*status)) return std::nullopt;
  const std::optional<Stat> stat = parse_stat(read_text(folder + "/stat").value_or(""));
  if (!stat || stat->dead) return std::nullopt;
  return AgentProcess{stat->pid, stat->started, depth_of(*status) <= own_depth,
                      runtime_dir_of(folder), cgroup_of(folder)};
}

bool is_number(std::string_view name) { return parse_number(name).has_value(); }

}  // namespace

Result<AgentProcesses> find_agents(const std::string& proc_root) {
  const std::string self = proc_root + "/self";
  const std::optional<Stat> own = parse_stat(TRY(read_text(self + "/stat")));
  const std::string status = TRY(read_text(self + "/status"));
  if (!own) return make_error(Errc::bad_format, self + "/stat");
  const std::size_t own_depth = depth_of(status);
  AgentProcesses found;
  found.self = {own->pid, own->started, true, runtime_dir_of(self), cgroup_of(self)};
  std::error_code error;
  for (auto it = fs::directory_iterator(proc_root, error);
       !error && it != fs::directory_iterator() && found.others.size() < kMostAgents;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_number(name) || name == std::to_string(own->pid)) continue;
    if (auto other = view(it->path().string(), own_depth)) {
      found.others.push_back(std::move(*other));
    }
  }
  if (error) return make_system_error(error.value(), proc_root);
  return found;
}

}  // namespace andiron::os
