// SPDX-License-Identifier: MIT
#include "agent/os/memory.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "agent/base/units.hpp"
#include "agent/os/cgroup.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

/// v1 says "no limit" with the largest multiple of its page size below 2^63; nobody has a quarter
/// of that.
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 61;

/// "Key:  123 kB" or "key 123" of a table of names and numbers.
std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    const std::vector<std::string_view> words = fields(line);
    if (words.size() >= 2 && words[0] == key) return parse_number(words[1]);
  }
  return std::nullopt;
}

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

/// One cgroup's limit and what it leaves, in bytes.
struct Limit {
  std::uint64_t limit;
  std::uint64_t available;
};

std::optional<std::uint64_t> read_limit(const std::string& path) {
  const std::optional<std::uint64_t> value = read_number(path);  // "max" is no number
  if (!value || *value >= kUnlimited) return std::nullopt;
  return value;
}

/// memory.high counts too: past it the kernel reclaims, and that would be our pages.
std::optional<Limit> limit_v2(const std::string& folder) {
  const std::optional<std::uint64_t> max = read_limit(folder + "/memory.max");
  const std::optional<std::uint64_t> high = read_limit(folder + "/memory.high");
  if (!max && !high) return std::nullopt;
  const std::uint64_t limit = std::min(max.value_or(kUnlimited), high.value_or(kUnlimited));
  const std::uint64_t used = read_number(folder + "/memory.current").value_or(0);
  const std::string stat = read_word(folder + "/memory.stat").value_or("");
  const std::uint64_t file =
      value_of(stat, "inactive_file").value_or(0) + value_of(stat, "active_file").value_or(0);
  return Limit{limit, minus(limit, minus(used, file))};
}

std::optional<Limit> limit_v1(const std::string& folder) {
  const std::string stat = read_word(folder + "/memory.stat").value_or("");
  std::uint64_t limit = read_limit(folder + "/memory.limit_in_bytes").value_or(kUnlimited);
  // The tightest of the ancestors, those that a container does not see included.
  limit = std::min(limit, value_of(stat, "hierarchical_memory_limit").value_or(kUnlimited));
  if (limit >= kUnlimited) return std::nullopt;
  const std::uint64_t used = read_number(folder + "/memory.usage_in_bytes").value_or(0);
  const std::uint64_t file = value_of(stat, "total_inactive_file").value_or(0) +
                             value_of(stat, "total_active_file").value_or(0);
  return Limit{limit, minus(limit, minus(used, file))};
}

void apply(const Limit& limit, const std::string& path, MemoryView& view) {
  view.available = std::min(view.available, limit.available);
  if (limit.limit < view.limit) {
    view.limit = limit.limit;
    view.limited_by = path.empty() ? "/" : path;
  }
}

/// Our cgroup and all above it, to the root of what we see.
void apply_hierarchy(const MemoryHierarchy& hierarchy, MemoryView& view) {
  std::string path = hierarchy.path;
  for (;;) {
    const std::string folder = hierarchy.base + path;
    if (const auto limit = hierarchy.v2 ? limit_v2(folder) : limit_v1(folder)) {
      apply(*limit, path, view);
    }
    if (path.empty()) return;
    path.resize(std::min(path.rfind('/'), path.size()));
  }
}

}  // namespace

Result<MemoryView> read_memory(const std::string& proc_root, const std::string& cgroup_root) {
  const std::string meminfo = TRY(read_text(proc_root + "/meminfo"));
  const auto bytes = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const std::optional<std::uint64_t> kilobytes = value_of(meminfo, key);
    if (!kilobytes || *kilobytes > kUnlimited / kKiB) return std::nullopt;
    return *kilobytes * kKiB;
  };
  const std::optional<std::uint64_t> total = bytes("MemTotal:");
  if (!total) return make_error(Errc::bad_format, proc_root + "/meminfo without MemTotal");

  MemoryView view;
  view.limit = *total;
  view.available = bytes("MemAvailable:").value_or(bytes("MemFree:").value_or(0));
  view.mlocked = bytes("Mlocked:").value_or(0);
  view.swap_total = bytes("SwapTotal:").value_or(0);
  view.swap_free = bytes("SwapFree:").value_or(0);
  view.limited_by = "machine";
  // "name type data": the ARC shrinks to c_min when asked to, and MemAvailable does not say so.
  if (const auto arc = read_word(proc_root + "/spl/kstat/zfs/arcstats")) {
    const auto arc_value = [&](std::string_view key) -> std::uint64_t {
      for (const std::string_view line : split(*arc, '\n')) {
        const std::vector<std::string_view> words = fields(line);
        if (words.size() == 3 && words[0] == key) return parse_number(words[2]).value_or(0);
      }
      return 0;
    };
    view.zfs_arc_reclaimable = minus(arc_value("size"), arc_value("c_min"));
  }
  for (const MemoryHierarchy& hierarchy : memory_hierarchies(proc_root, cgroup_root)) {
    apply_hierarchy(hierarchy, view);
  }
  return view;
}

}  // namespace andiron::os
