// SPDX-License-Identifier: MIT
#include "agent/cli/setup_proposal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include "agent/base/units.hpp"
#include "agent/cli/setup_warnings.hpp"
#include "agent/cli/terminal_text.hpp"
#include "agent/config/compile.hpp"
#include "agent/config/toml_string.hpp"

namespace andiron::cli {
namespace {

// A hot set is small: what is loaded now is loaded for a reason, what was used lately is a guess.
constexpr std::size_t kMostLoaded = 4;
constexpr std::size_t kMostRecent = 2;
// Alternatives that are checked, to be written into the config as comments.
constexpr std::size_t kMostAlternatives = 8;
// Files compared by samples (three reads of 64 KiB each) to find copies.
constexpr std::size_t kMostComparisons = 256;
constexpr std::int64_t kDay = 86'400;

std::int64_t days_since(std::int64_t used, WallTime now) {
  const std::int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  return std::max<std::int64_t>(0, (seconds - used) / kDay);
}

std::string when_used(std::int64_t used, WallTime now) {
  const std::int64_t days = days_since(used, now);
  if (days == 0) return "used within the last day";
  return days == 1 ? "last used a day ago" : fmt::format("last used {} days ago", days);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

/// Loaded ones first; then by day of last use; then the small ones.
bool ranks_before(const Candidate& a, const Candidate& b, WallTime now) {
  const auto rank = [&](const Candidate& one) {
    return std::make_tuple(one.model.in_use_by.empty(), days_since(one.model.used, now), one.bytes,
                           std::string_view(one.model.label), std::string_view(one.model.store));
  };
  const bool a_loaded = !a.model.in_use_by.empty();
  if (a_loaded && !b.model.in_use_by.empty()) {
    return std::tie(a.bytes, a.model.label, a.model.store) <
           std::tie(b.bytes, b.model.label, b.model.store);
  }
  return rank(a) < rank(b);
}

std::vector<Candidate> candidates_of(const Machine& machine, const TreeReader& tree, WallTime now) {
  std::vector<Candidate> candidates;
  for (const FoundModel& model : machine.models) {
    Candidate candidate;
    candidate.model = model;
    candidate.bytes = model.bytes;
    if (const os::Mount* mount = tree.mount_of(model.files.front().path)) {
      candidate.filesystem = mount->type;
    }
    candidates.push_back(std::move(candidate));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return ranks_before(a, b, now); });
  return candidates;
}

void give_names(std::vector<Candidate>& candidates) {
  std::set<std::string> taken;
  for (Candidate& candidate : candidates) {
    const std::string base = config_name(candidate.model.label);
    candidate.name = base;
    for (int count = 2; !taken.insert(candidate.name).second; ++count) {
      candidate.name = fmt::format("{}-{}", base, count);
    }
  }
}

void mark_duplicates(std::vector<Candidate>& candidates) {
  std::size_t comparisons = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    for (std::size_t earlier = 0; earlier < i && comparisons < kMostComparisons; ++earlier) {
      const FoundModel& a = candidates[earlier].model;
      const FoundModel& b = candidates[i].model;
      if (!candidates[earlier].duplicate_of.empty()) continue;
      if (a.files.front().bytes != b.files.front().bytes) continue;
      ++comparisons;
      if (!same_weights(a, b)) continue;
      candidates[i].duplicate_of = a.label;
      break;
    }
  }
}

bool same_files(const FoundModel& model, const catalog::Resolved& resolved) {
  return std::all_of(model.files.begin(), model.files.end(), [&](const FoundFile& file) {
    return std::any_of(resolved.files.begin(), resolved.files.end(),
                       [&](const catalog::ModelFile& other) {
                         return other.identity.dev == file.dev && other.identity.ino == file.ino;
                       });
  });
}

/// Finds the source to write down for a candidate, and proves it; sets `problem` where there is
/// none.
void settle(Candidate& candidate, const SourceCheck& check) {
  if (!candidate.source.empty() || !candidate.problem.empty()) return;
  const FoundModel& model = candidate.model;
  const auto all_utf8 = [](const std::vector<std::string>& texts) {
    return std::all_of(texts.begin(), texts.end(), [](const auto& text) { return is_utf8(text); });
  };
  const auto accept = [&](const std::string& source, const std::vector<std::string>& also,
                          const catalog::Resolved& resolved) {
    const std::string text = fmt::format("[[model]]\nname = \"{}\"\nsource = {}\n", candidate.name,
                                         config::to_toml_string(source));
    if (const config::Compiled compiled = config::compile(text, "proposal"); !compiled.ok()) {
      candidate.problem = "its name cannot stand in a config: " + compiled.errors.front().message;
      return;
    }
    candidate.source = source;
    candidate.also = also;
    candidate.bytes = resolved.bytes;
  };
  if (!model.source.empty() && is_utf8(model.source)) {
    const auto resolved = check(model.source, {});
    if (resolved && same_files(model, *resolved)) return accept(model.source, {}, *resolved);
  }
  if (!is_utf8(model.path_source) || !all_utf8(model.also)) {
    candidate.problem = "its path is not UTF-8, which a config cannot hold: rename it";
    return;
  }
  const auto resolved = check(model.path_source, model.also);
  if (!resolved) {
    candidate.problem = resolved.error().message();
    return;
  }
  accept(model.path_source, model.also, *resolved);
}

bool asks_for(const Candidate& candidate, std::string_view wanted) {
  const FoundModel& model = candidate.model;
  const std::string latest = std::string(wanted) + ":latest";
  return wanted == candidate.name || wanted == model.label || wanted == model.source ||
         wanted == model.path_source || (model.kind == StoreKind::ollama && model.label == latest);
}

void choose_wanted(Proposal& proposal, const std::vector<std::string>& wanted,
                   const SourceCheck& check) {
  for (const std::string& name : wanted) {
    std::vector<Candidate>& all = proposal.candidates;
    // Exact names and paths before labels that several stores share: candidates are in rank order.
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const Candidate& one) { return one.name == name; });
    if (found == all.end()) {
      found = std::find_if(all.begin(), all.end(),
                           [&](const Candidate& one) { return asks_for(one, name); });
    }
    if (found == all.end()) {
      proposal.unmet.push_back(name + ": no such model was found");
      continue;
    }
    if (found->chosen) continue;
    settle(*found, check);
    if (!found->problem.empty()) {
      proposal.unmet.push_back(name + ": " + found->problem);
      continue;
    }
    found->chosen = true;
    found->why = "asked for";
    found->would_hold = proposal.chosen_bytes + found->bytes <= proposal.capacity;
    proposal.chosen_bytes += found->bytes;
    if (!found->would_hold) {
      found->cautions.push_back(fmt::format(
          "It does not fit: the models asked for come to {}, and Andiron would hold {} here.",
          format_bytes(proposal.chosen_bytes), format_bytes(proposal.capacity)));
    }
  }
}

/// Why a candidate is not for the automatic choice; empty when it is.
std::string not_automatic(const Proposal& proposal, const Candidate& candidate) {
  if (!candidate.duplicate_of.empty()) {
    return fmt::format("the same weights as {}", candidate.duplicate_of);
  }
  if (!keeps_page_cache(candidate.filesystem)) {
    return fmt::format("on {}, whose files the page cache does not keep", candidate.filesystem);
  }
  if (candidate.bytes > proposal.limit) return "larger than this machine's memory";
  if (proposal.chosen_bytes + candidate.bytes > proposal.capacity) {
    return proposal.chosen_bytes == 0
               ? fmt::format("would not fit: Andiron would hold {} here",
                             format_bytes(proposal.capacity))
               : fmt::format("would not fit beside the others: Andiron would hold {} here",
                             format_bytes(proposal.capacity));
  }
  return {};
}

std::size_t choose_among(Proposal& proposal, bool loaded, std::size_t most,
                         const SourceCheck& check, WallTime now) {
  std::size_t count = 0;
  for (Candidate& candidate : proposal.candidates) {
    if (candidate.model.in_use_by.empty() == loaded) continue;
    if (count >= most) break;
    if (!not_automatic(proposal, candidate).empty()) continue;
    settle(candidate, check);
    // Its real size is known now.
    if (!candidate.problem.empty() || !not_automatic(proposal, candidate).empty()) continue;
    candidate.chosen = true;
    candidate.would_hold = true;
    candidate.why = loaded ? "loaded now by " + joined(candidate.model.in_use_by)
                           : when_used(candidate.model.used, now);
    proposal.chosen_bytes += candidate.bytes;
    ++count;
  }
  return count;
}

void choose(Proposal& proposal, const SourceCheck& check, WallTime now) {
  if (proposal.machine.unified.unified) return;  // Two copies have no room: only when asked for.
  if (choose_among(proposal, true, kMostLoaded, check, now) > 0) return;
  const auto distinct = static_cast<std::size_t>(
      std::count_if(proposal.candidates.begin(), proposal.candidates.end(),
                    [](const Candidate& one) { return one.duplicate_of.empty(); }));
  // Never simply all that is there: a second model is proposed where there is a third.
  choose_among(proposal, false, distinct > kMostRecent ? kMostRecent : 1, check, now);
}

void explain_the_rest(Proposal& proposal, const SourceCheck& check, WallTime now) {
  std::size_t alternatives = 0;
  for (Candidate& candidate : proposal.candidates) {
    add_cautions(candidate, proposal.limit);
    if (candidate.chosen) continue;
    if (candidate.duplicate_of.empty() && alternatives < kMostAlternatives) {
      settle(candidate, check);
      if (candidate.problem.empty()) ++alternatives;
    }
    if (!candidate.problem.empty()) {
      candidate.why = "cannot be used: " + candidate.problem;
      continue;
    }
    candidate.why = not_automatic(proposal, candidate);
    if (!candidate.why.empty()) continue;
    candidate.why = candidate.model.in_use_by.empty()
                        ? when_used(candidate.model.used, now)
                        : "loaded now by " + joined(candidate.model.in_use_by);
  }
}

}  // namespace

std::string config_name(std::string_view label) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
  constexpr std::size_t kMost = 64;  // half of what a config takes: room for "-2", and for eyes
  // Of "org/name" people say the name.
  if (const std::size_t slash = label.rfind('/'); slash + 1 < label.size()) {
    label.remove_prefix(slash + 1);
  }
  std::string name;
  for (const char c : label) {
    const bool allowed = kAllowed.find(c) != std::string_view::npos;
    if (allowed)
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
    if (name.size() >= kMost) break;
  }
  // A leading '-' would read as an option.
  const std::size_t first = name.find_first_not_of("-.:");
  name.erase(0, std::min(first, name.size()));
  while (!name.empty() && (name.back() == '-' || name.back() == ':'))
    name.pop_back();
  return name.empty() ? "model" : name;
}

std::uint64_t capacity_of(std::uint64_t limit, std::uint64_t headroom) {
  const std::uint64_t budget = limit / 2;
  return std::max(budget > headroom ? budget - headroom : 0, limit / 8);
}

Proposal propose(Machine machine, const TreeReader& tree, const std::vector<std::string>& wanted,
                 const SourceCheck& check, WallTime now) {
  Proposal proposal;
  if (machine.memory) proposal.limit = machine.memory->limit;
  proposal.budget = proposal.limit / 2;
  // As the agent's "auto": the larger of 2 GiB and 10 %.
  proposal.headroom = std::max(2 * kGiB, proposal.limit / 10);
  proposal.capacity = capacity_of(proposal.limit, proposal.headroom);
  proposal.candidates = candidates_of(machine, tree, now);
  proposal.machine = std::move(machine);
  give_names(proposal.candidates);
  mark_duplicates(proposal.candidates);
  if (wanted.empty())
    choose(proposal, check, now);
  else
    choose_wanted(proposal, wanted, check);
  explain_the_rest(proposal, check, now);
  std::stable_sort(proposal.candidates.begin(), proposal.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.chosen > b.chosen; });
  proposal.warnings = warnings_of(proposal);
  return proposal;
}

}  // namespace andiron::cli
