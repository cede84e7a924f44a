// SPDX-License-Identifier: MIT
#include "agent/cli/render.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "agent/base/units.hpp"
#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

using Row = std::vector<std::string>;

/// A lane that is busy and silent for longer is stuck in its device: the slowest healthy disks
/// answer one window well within a second.
constexpr double kSilentLane = 10;

const char* colour_of(std::string_view word) {
  if (word == "warm" || word == "on") return "\x1b[32m";
  if (word == "error" || word == "missing" || word == "off") return "\x1b[31m";
  if (word == "partial" || word == "stale" || word == "warming" || word == "degraded") {
    return "\x1b[33m";
  }
  return nullptr;
}

/// Colours the first cell that reads `word` in a finished line, so that widths stay true.
std::string paint(std::string line, std::string_view word, const Style& style) {
  const char* colour = style.colour ? colour_of(word) : nullptr;
  const std::size_t at = line.find(fmt::format("  {}", word));
  if (colour == nullptr || at == std::string::npos) return line;
  line.insert(at + 2 + word.size(), "\x1b[0m");
  line.insert(at + 2, colour);
  return line;
}

/// A table in which column `painted` holds state words.
std::string painted_table(const std::vector<Row>& rows, const std::vector<Align>& columns,
                          std::size_t painted, const Style& style) {
  const std::string table = render_table(rows, columns);
  if (!style.colour) return table;
  std::string result;
  std::size_t begin = 0;
  for (const Row& row : rows) {
    const std::size_t end = table.find('\n', begin) + 1;
    result += paint(table.substr(begin, end - begin), row.at(painted), style);
    begin = end;
  }
  return result;
}

std::string of_total(const std::optional<std::uint64_t>& part, std::uint64_t whole) {
  return fmt::format("{} of {}", part ? format_bytes(*part) : "unknown", format_bytes(whole));
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string seconds(double value) {
  // Nothing sane is longer; what is must not overflow.
  const double ms = std::clamp(std::round(value * 1000), 0.0, 1e15);
  return format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(ms)));
}

std::string days_or_less(double uptime_s) {
  const double days = std::floor(uptime_s / 86'400);
  if (!(days >= 1)) return seconds(uptime_s);
  return fmt::format("{:.0f}d {}", std::min(days, 1e6), seconds(std::fmod(uptime_s, 86'400)));
}

std::string advice(const CapabilityBody& capability) {
  std::string line = fmt::format("{} is {}", capability.name, capability.state);
  if (!capability.reason.empty()) line += ": " + capability.reason;
  if (!capability.remedy.empty()) line += "; " + capability.remedy;
  return line + '\n';
}

std::string render_advice(const StatusBody& status) {
  std::string result;
  for (const ModelBody& model : status.models) {
    if (model.state == "error" || model.state == "missing" || model.state == "stale") {
      result += fmt::format("{0} is {1}: andironctl explain {0}\n", model.name, model.state);
    }
  }
  for (const TierBody& tier : status.tiers) {
    if (tier.used_bytes > tier.budget_bytes) {
      result += fmt::format("{} is over its budget: andironctl plan\n", tier.name);
    }
    if (tier.draining_bytes > 0) {
      result += fmt::format("{} in {} were given up, and clients still use them\n",
                            format_bytes(tier.draining_bytes), tier.name);
    }
  }
  for (const LaneBody& lane : status.lanes) {
    if (lane.busy && lane.silent_s >= kSilentLane) {
      result += fmt::format("{} has not answered for {}: look at the kernel's log\n",
                            lane.device.empty() ? lane.lane : lane.device, seconds(lane.silent_s));
    }
  }
  for (const CapabilityBody& capability : status.capabilities) {
    if (capability.state == "degraded") result += advice(capability);
  }
  for (const std::string& note : status.notes)
    result += note + '\n';
  return result.empty() ? result : '\n' + result;
}

std::string shape(const std::vector<std::uint64_t>& dimensions) {
  return fmt::format("[{}]", fmt::join(dimensions, ", "));
}

std::string who(const EventBody& event) {
  std::string name = event.by_comm;
  if (name.empty() && event.by_pid != 0) name = fmt::format("pid {}", event.by_pid);
  const std::string& where = event.by_container.empty() ? event.by_cgroup : event.by_container;
  if (name.empty()) return where;
  // The root cgroup says nothing.
  return where.empty() || where == "/" ? name : fmt::format("{} ({})", name, where);
}

std::string file_rows(const std::vector<FileBody>& files, bool residency) {
  std::vector<Row> rows{residency ? Row{"FILE", "SIZE", "RESIDENT", "LOCKED"}
                                  : Row{"FILE", "SIZE"}};
  for (const FileBody& file : files) {
    Row row{file.path + (file.companion ? " (companion)" : ""), format_bytes(file.bytes)};
    if (residency) {
      row.push_back(file.resident_bytes ? format_bytes(*file.resident_bytes) : "unknown");
      row.push_back(format_bytes(file.locked_bytes));
    }
    rows.push_back(std::move(row));
  }
  return render_table(rows, {Align::left, Align::right, Align::right, Align::right});
}

}  // namespace

std::string render_models(const std::vector<ModelBody>& models, const Style& style) {
  if (models.empty()) return "No models.\n";
  std::vector<Row> rows{{"MODEL", "STATE", "RESIDENT", "HOLD", "PRIORITY"}};
  for (const ModelBody& model : models) {
    rows.push_back({model.name, or_dash(model.state), of_total(model.resident_bytes, model.bytes),
                    or_dash(model.hold), or_dash(model.priority)});
  }
  return painted_table(rows, {Align::left, Align::left, Align::right, Align::left, Align::left}, 1,
                       style);
}

std::string render_status(const StatusBody& status, const Style& style) {
  std::string result = fmt::format("andirond {}, up {}, pid {}\n", or_dash(status.version),
                                   days_or_less(status.uptime_s), status.pid);
  if (!status.config_path.empty()) {
    result += fmt::format("configuration {}, taken {}\n", status.config_path,
                          format_local_time(status.config_loaded, style.now));
  }
  if (status.memory_limit > 0) {
    result += fmt::format("memory {} available of {}, limited by {}\n",
                          format_bytes(status.memory_available), format_bytes(status.memory_limit),
                          or_dash(status.memory_limited_by));
  }
  std::vector<Row> rows{{"TIER", "USED", "BUDGET", "HEADROOM"}};
  for (const TierBody& tier : status.tiers) {
    rows.push_back({tier.name, format_bytes(tier.used_bytes), format_bytes(tier.budget_bytes),
                    format_bytes(tier.headroom_bytes)});
  }
  result += '\n' + render_table(rows, {Align::left, Align::right, Align::right, Align::right});
  result += '\n' + render_models(status.models, style);
  if (status.jobs > 0) {
    result += fmt::format("\n{} {} at work: andironctl jobs\n", status.jobs,
                          status.jobs == 1 ? "job" : "jobs");
  }
  return result + render_advice(status);
}

std::string render_model(const ModelBody& model, const Style& style) {
  std::vector<Row> rows{
      {model.name, or_dash(model.state)},
      {"source", or_dash(model.source)},
      {"priority", or_dash(model.priority)},
      {"wanted", fmt::format("{}, {}", or_dash(model.want_tier), or_dash(model.want_hold))},
      {"page cache",
       fmt::format("{}, {} locked, hold {}", of_total(model.resident_bytes, model.bytes),
                   format_bytes(model.locked_bytes), or_dash(model.hold))},
      {"pinned RAM", format_bytes(model.pinned_bytes)},
      {"evictions", fmt::format("{}, {}", model.evictions, format_bytes(model.evicted_bytes))}};
  if (!model.last_used.empty()) {
    rows.push_back({"last used", format_local_time(model.last_used, style.now)});
  }
  if (model.last_load) {
    const LoadBody& load = *model.last_load;
    rows.push_back({"last load", fmt::format("{}: locate {}, read {}, place {}, verify {}",
                                             format_bytes(load.bytes), seconds(load.locate_s),
                                             seconds(load.read_s), seconds(load.place_s),
                                             seconds(load.verify_s))});
  }
  if (model.last_error) {
    rows.push_back(
        {"last error", fmt::format("{} ({})", model.last_error->message, model.last_error->code)});
  }
  std::string result = render_table(rows, {Align::left, Align::left});
  const std::size_t first = result.find('\n') + 1;
  result = paint(result.substr(0, first), model.state, style) + result.substr(first);
  for (const std::string& note : model.notes)
    result += "note: " + note + '\n';
  if (!model.files_detail.empty()) result += '\n' + file_rows(model.files_detail, true);
  return result;
}

std::string render_explain(const ModelBody& model) {
  if (model.explain.empty()) return fmt::format("{} is {}.\n", model.name, or_dash(model.state));
  std::string result;
  for (const std::string& sentence : model.explain)
    result += sentence + '\n';
  return result;
}

std::string render_plan(const PlanBody& plan) {
  if (plan.steps.empty()) return "Nothing to do.\n";
  std::vector<Row> rows{{"STEP", "MODEL", "HOLD", "BYTES", "WHY"}};
  for (const StepBody& step : plan.steps) {
    rows.push_back(
        {step.kind, step.model, or_dash(step.hold), format_bytes(step.bytes), step.reason});
  }
  const std::string table =
      render_table(rows, {Align::left, Align::left, Align::left, Align::right, Align::left});
  return plan.dry_run ? table + "\ndry_run is set: nothing of this is applied.\n" : table;
}

std::string render_jobs(const std::vector<JobBody>& jobs, const Style& style) {
  if (jobs.empty()) return "No jobs.\n";
  std::vector<Row> rows{{"JOB", "MODEL", "STATE", "DONE", "STARTED"}};
  for (const JobBody& job : jobs) {
    rows.push_back({fmt::format("{}", job.id), job.model, or_dash(job.state),
                    of_total(job.done_bytes, job.total_bytes),
                    format_local_time(job.started, style.now)});
  }
  return render_table(rows, {Align::right, Align::left, Align::left, Align::right, Align::left});
}

std::string render_doctor(const std::vector<CapabilityBody>& capabilities, const Style& style) {
  std::vector<Row> rows{{"CAPABILITY", "STATE", "WHY"}};
  for (const CapabilityBody& capability : capabilities) {
    rows.push_back({capability.name, or_dash(capability.state), capability.reason});
  }
  std::string result = painted_table(rows, {Align::left, Align::left, Align::left}, 1, style);
  std::string remedies;
  for (const CapabilityBody& capability : capabilities) {
    if (capability.state != "on" && !capability.remedy.empty()) {
      remedies += fmt::format("{}: {}\n", capability.name, capability.remedy);
    }
  }
  return remedies.empty() ? result : result + "\nWhat would help:\n" + remedies;
}

std::string render_resolved(const ResolvedBody& resolved, bool tensors) {
  const std::vector<FileBody>& files = resolved.files;
  std::string result =
      fmt::format("{}: {} in {} {}\n", resolved.source, format_bytes(resolved.bytes), files.size(),
                  files.size() == 1 ? "file" : "files");
  result += file_rows(files, false);
  for (const std::string& note : resolved.notes)
    result += "note: " + note + '\n';
  if (!tensors) return result;
  std::vector<Row> rows{{"TENSOR", "TYPE", "SHAPE", "FILE", "OFFSET", "SIZE"}};
  for (const TensorBody& tensor : resolved.tensors) {
    rows.push_back({tensor.name, tensor.dtype, shape(tensor.shape), tensor.file,
                    fmt::format("{}", tensor.offset), format_bytes(tensor.bytes)});
  }
  return result + '\n' +
         render_table(rows, {Align::left, Align::left, Align::left, Align::right, Align::right,
                             Align::right});
}

std::string render_dropped(const ModelBody& model) {
  return fmt::format("{}: let go, {} still resident\n", model.name,
                     of_total(model.resident_bytes, model.bytes));
}

std::string render_event(const EventBody& event, const Style& style) {
  std::string line = format_local_time(event.time, style.now) + ' ' + event.type;
  if (!event.model.empty()) line += ' ' + event.model;
  std::string what;
  if (event.bytes > 0) {
    what = format_bytes(event.bytes);
  } else if (!event.file.empty()) {
    what = event.file;
  }
  const std::string by = event.by_known ? who(event) : std::string();
  if (!by.empty()) what += (what.empty() ? "by " : " by ") + by;
  for (const std::string* part : {&event.cause, &event.detail}) {
    if (!part->empty()) what += (what.empty() ? "" : ", ") + *part;
  }
  if (!what.empty()) line += ": " + what;
  return line + '\n';
}

std::string render_warmed(const ModelBody& model, std::chrono::nanoseconds took,
                          std::uint64_t read) {
  std::string line = fmt::format("{}: {}", model.name, or_dash(model.state));
  if (model.want_tier == "pinned-ram") {
    line += fmt::format(", {} in pinned RAM", of_total(model.pinned_bytes, model.bytes));
  } else if (model.resident_bytes) {
    line += fmt::format(", {} resident", of_total(model.resident_bytes, model.bytes));
  } else {
    line += fmt::format(", {}, residency unknown", format_bytes(model.bytes));
  }
  if (!model.hold.empty()) line += ", " + model.hold;
  line += ", in " + format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(took));
  const double time = std::chrono::duration<double>(took).count();
  if (read > 0 && time > 0)
    line += fmt::format(" ({})", format_rate(static_cast<double>(read) / time));
  return line + '\n';
}

}  // namespace andiron::cli
