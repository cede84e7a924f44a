// SPDX-License-Identifier: MIT
#include "agent/cli/setup_render.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "agent/base/units.hpp"
#include "agent/cli/terminal_text.hpp"
#include "agent/config/compile.hpp"
#include "agent/config/toml_string.hpp"

namespace andiron::cli {
namespace {

constexpr std::size_t kMostAlternatives = 8;  // in the config: a page, not a catalogue
constexpr std::size_t kMostRows = 25;         // in the table
constexpr std::size_t kCommentColumns = 96;
constexpr std::size_t kMostCommentText = 600;  // of one hostile or long sentence

/// Text as comment lines, broken at blanks.
std::string comment(std::string_view text, std::string_view prefix = "# ") {
  const std::string safe = escape_text(text.substr(0, kMostCommentText));
  std::string lines;
  std::string line;
  std::string_view rest = safe;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() && line.size() + 1 + word.size() + prefix.size() > kCommentColumns) {
      lines += fmt::format("{}{}\n", prefix, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return lines + fmt::format("{}{}\n", prefix, line);
}

std::string string_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) {
    list += (list.empty() ? "" : ", ") + config::to_toml_string(text);
  }
  return "[" + list + "]";
}

/// Container names that a config can hold.
std::vector<std::string> preloads(const Candidate& candidate) {
  std::vector<std::string> when{"boot"};
  for (const std::string& container : candidate.model.in_use_containers) {
    if (config_name(container) == container) when.push_back("container:" + container);
  }
  return when;
}

std::string model_table(const Candidate& candidate, std::string_view priority,
                        std::string_view prefix) {
  std::string text;
  const auto line = [&](std::string_view content) {
    text += fmt::format("{}{}\n", prefix, content);
  };
  line("[[model]]");
  text += comment(fmt::format("{}, {}: {}.", candidate.model.label, format_bytes(candidate.bytes),
                              candidate.why));
  for (const std::string& caution : candidate.cautions) {
    text += comment("Note: " + caution);
  }
  line("name = " + config::to_toml_string(candidate.name));
  line("source = " + config::to_toml_string(candidate.source));
  if (!candidate.also.empty()) line("also = " + string_list(candidate.also));
  line(fmt::format("priority = \"{}\"", priority));
  line("keep_alive = \"auto\"");
  line("preload = " + string_list(preloads(candidate)));
  return text;
}

std::string models_part(const Proposal& proposal) {
  std::string text;
  bool first = true;
  for (const Candidate& candidate : proposal.candidates) {
    if (!candidate.chosen) continue;
    text += "\n";
    if (first) {
      text += comment(
          "Models to keep. \"preload\" says when to read one in: at the machine's start, and when "
          "a "
          "container starts that uses it. \"interactive\" goes before everything that can wait.");
    }
    text += model_table(candidate, first ? "interactive" : "normal", "");
    first = false;
  }
  if (first) {
    text += "\n" + comment(proposal.machine.unified.unified
                               ? "No model is kept, since this machine's GPU shares its memory. To "
                                 "keep one nevertheless, add a [[model]]."
                               : "No model is kept yet.");
  }
  std::size_t shown = 0;
  for (const Candidate& candidate : proposal.candidates) {
    if (candidate.chosen || candidate.source.empty() || !candidate.duplicate_of.empty()) continue;
    if (shown++ >= kMostAlternatives) break;
    if (shown == 1) {
      text += "\n" + comment(
                         "More models are here. Not everything should be kept: what is held for "
                         "one that is rarely "
                         "used is missing elsewhere. To keep one of these, take the \"#\" away "
                         "from its lines.");
    }
    text += "#\n" + model_table(candidate, "normal", "#");
  }
  return text;
}

std::string gpus_part(const Machine& machine) {
  if (machine.gpus.empty()) return {};
  std::string text =
      "\n" +
      comment(
          "GPUs found. Nothing below keeps weights in a GPU's memory; a model with tier = \"vram\" "
          "would, within the budget of a [[gpu]] entry.");
  for (const FoundGpu& gpu : machine.gpus) {
    text += comment(
        fmt::format("{}{}", gpu.name, gpu.vram ? ", " + format_bytes(*gpu.vram) : std::string{}));
    if (gpu.uuid.empty()) continue;
    text += "#[[gpu]]\n#uuid = " + config::to_toml_string(gpu.uuid) + "\n#headroom = \"2GiB\"\n";
  }
  return text;
}

std::string tenants_part(const Machine& machine) {
  std::string text;
  for (const FoundTenant& tenant : machine.tenants) {
    text += "\n";
    if (&tenant == &machine.tenants.front()) {
      text += comment(
          "Programs that need memory beside the models: Andiron learns how much, and "
          "makes room for them.");
    }
    text += "[[tenant]]\n" + comment(tenant.why + ".");
    if (!tenant.caution.empty()) text += comment(tenant.caution);
    text += "name = " + config::to_toml_string(tenant.name) + "\n";
    std::string match;
    if (!tenant.match_exe.empty()) match += "exe = " + config::to_toml_string(tenant.match_exe);
    if (!tenant.match_cgroup.empty()) {
      match +=
          (match.empty() ? "" : ", ") + ("cgroup = " + config::to_toml_string(tenant.match_cgroup));
    }
    text += fmt::format("match = {{ {} }}\nvram = \"auto\"\nram = \"auto\"\n", match);
  }
  return text;
}

std::string plural(std::size_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string machine_report(const Machine& machine, std::uint64_t limit) {
  std::string text = "Found on this machine\n";
  const auto item = [&](std::string_view what, std::string_view value) {
    text += fmt::format("  {:<11} {}\n", what, escape_text(value));
  };
  if (limit != 0) {
    item("memory",
         fmt::format(
             "{}, {} available; swap {}", format_bytes(limit),
             format_bytes(machine.memory->available),
             machine.memory->swap_total == 0 ? "none" : format_bytes(machine.memory->swap_total)));
  }
  for (const FoundGpu& gpu : machine.gpus) {
    item("GPU", gpu.name + (gpu.vram ? ", " + format_bytes(*gpu.vram) : std::string{}));
  }
  std::set<std::string> runtimes;
  for (const Runtime& runtime : machine.runtimes) {
    const Container& container = runtime.process.container;
    std::string where;
    if (!container.id.empty()) {
      where =
          " in container " + (container.name.empty() ? container.id.substr(0, 12) : container.name);
    }
    if (runtimes.insert(runtime.kind + where).second) {
      item("runtime", fmt::format("{} (pid {}){}", runtime.kind, runtime.process.pid, where));
    }
  }
  for (const FoundStore& store : machine.stores) {
    item("models",
         fmt::format("{}: {} ({})", store.path, plural(store.models, "model"), store.origin));
  }
  for (const FoundTenant& tenant : machine.tenants) {
    item("tenant", fmt::format("{} ({})", tenant.name, tenant.why));
  }
  return text;
}

/// A folder's name may hold what a config refuses, such as control characters.
bool is_root(const std::string& path) {
  return is_utf8(path) &&
         config::compile("[agent]\nallow_roots = [" + config::to_toml_string(path) + "]\n", "root")
             .ok();
}

}  // namespace

std::vector<FoundStore> allow_roots_of(const Machine& machine) {
  constexpr std::size_t kMost = 32;
  std::vector<FoundStore> roots;
  for (const FoundStore& store : machine.stores) {
    if (roots.size() >= kMost || !is_root(store.path)) continue;
    const bool inside =
        std::any_of(machine.stores.begin(), machine.stores.end(), [&](const FoundStore& other) {
          return store.path.size() > other.path.size() && is_root(other.path) &&
                 store.path.compare(0, other.path.size(), other.path) == 0 &&
                 store.path[other.path.size()] == '/';
        });
    if (!inside) roots.push_back(store);
  }
  return roots;
}

std::string render_config(const Proposal& proposal, WallTime now) {
  std::string text = comment(fmt::format(
      "Andiron's configuration, proposed by \"andironctl setup\" on {} from what it found on this "
      "machine. Change it as you like; \"andironctl reload\" takes it. What is not here has its "
      "default.",
      format_time(now).substr(0, 10)));
  for (const std::string& warning : proposal.warnings) {
    text += "#\n" + comment("Note: " + warning);
  }
  text += "\n[agent]\n";
  text += comment(
      "Folders that hold models: what is asked for over Andiron's socket must lie in one of them.");
  text += "allow_roots = [\n";
  for (const FoundStore& root : allow_roots_of(proposal.machine)) {
    text +=
        fmt::format("  {},  # {}\n", config::to_toml_string(root.path), escape_text(root.origin));
  }
  text += "]\n\n[budget]\n";
  if (proposal.limit != 0) {
    text +=
        comment(fmt::format("Of this machine's {} Andiron holds {} at most, and always leaves {} "
                            "free. The models below "
                            "take {}.",
                            format_bytes(proposal.limit), format_bytes(proposal.budget),
                            format_bytes(proposal.headroom), format_bytes(proposal.chosen_bytes)));
  }
  text += "ram = \"50%\"\nram_headroom = \"auto\"\n";
  return text + gpus_part(proposal.machine) + models_part(proposal) +
         tenants_part(proposal.machine);
}

std::string render_report(const Proposal& proposal) {
  std::string text = machine_report(proposal.machine, proposal.limit);
  std::vector<std::vector<std::string>> rows{{"MODEL", "SIZE", "WOULD HOLD", "WHY"}};
  for (const Candidate& candidate : proposal.candidates) {
    if (rows.size() > kMostRows) break;
    rows.push_back({shorten(escape_text(candidate.model.label), 44), format_bytes(candidate.bytes),
                    candidate.would_hold ? "yes" : "no", escape_text(candidate.why)});
  }
  if (rows.size() > 1) {
    text += "\n" + render_table(rows, {Align::left, Align::right, Align::left, Align::left});
  }
  if (proposal.candidates.size() + 1 > rows.size()) {
    text += fmt::format("and {} more\n", proposal.candidates.size() + 1 - rows.size());
  }
  if (proposal.limit != 0 && !proposal.candidates.empty()) {
    text += fmt::format(
        "\nTogether {} of the {} that may be kept resident here (half of {}, less room for what "
        "models need while they run).\n",
        format_bytes(proposal.chosen_bytes), format_bytes(proposal.capacity),
        format_bytes(proposal.limit));
  }
  const auto section = [&](const std::string& sentence) {
    text += "note: " + escape_text(sentence) + "\n";
  };
  if (!proposal.warnings.empty() || !proposal.machine.notes.empty()) text += "\n";
  for (const std::string& warning : proposal.warnings) {
    section(warning);
  }
  for (const std::string& note : proposal.machine.notes) {
    section(note);
  }
  for (const Candidate& candidate : proposal.candidates) {
    if (!candidate.chosen) continue;
    for (const std::string& caution : candidate.cautions) {
      section(candidate.model.label + ": " + caution);
    }
  }
  return text;
}

}  // namespace andiron::cli
