// SPDX-License-Identifier: MIT
#include "agent/os/cgroup_tree.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxVisitedFolders = 256;
constexpr std::size_t kMaxVisitedProcesses = 1024;
/// Where systemd keeps itself as the init of a guest, and systemd-nspawn all of it.
constexpr const char* kInitFolders[] = {"init.scope", "payload"};

}  // namespace

std::optional<ProcessHierarchy> find_process_hierarchy(const std::string& root) {
  std::error_code ignored;
  if (fs::exists(root + "/cgroup.controllers", ignored)) return ProcessHierarchy{root, true};
  for (const char* name : {"systemd", "pids", "memory", "devices", "cpu"}) {
    std::string path = root + "/" + name;
    if (fs::exists(path + "/cgroup.procs", ignored)) {
      return ProcessHierarchy{std::move(path), false};
    }
  }
  return std::nullopt;
}

std::vector<std::string> child_cgroups(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end;
       !error && entry != end && names.size() < kMaxCgroupFolders; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool visit_processes(const std::string& folder,
                     const std::function<bool(pid_t, const std::string&)>& see) {
  std::deque<std::string> pending{folder};
  std::size_t folders = 0;
  std::size_t processes = 0;
  while (!pending.empty() && ++folders <= kMaxVisitedFolders) {
    const std::string path = std::move(pending.front());
    pending.pop_front();
    const std::string text = read_text(path + "/cgroup.procs").value_or(std::string());
    for (const std::string_view line : split(text, '\n')) {
      const auto pid = parse_number(line);
      // 0 stands for a process outside of our pid namespace.
      if (!pid || *pid == 0 || *pid > std::numeric_limits<pid_t>::max()) continue;
      if (++processes > kMaxVisitedProcesses) return false;
      if (see(static_cast<pid_t>(*pid), path)) return true;
    }
    std::vector<std::string> names = child_cgroups(path);
    std::stable_partition(names.begin(), names.end(), [](const std::string& name) {
      return std::find(std::begin(kInitFolders), std::end(kInitFolders), name) !=
             std::end(kInitFolders);
    });
    for (const std::string& name : names)
      pending.push_back(path + "/" + name);
  }
  return false;
}

}  // namespace andiron::os
