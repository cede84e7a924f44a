// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/os/capability.hpp"

/// The control API's JSON, as values: the only part of andironctl that knows JSON.
/// Every string in these is escaped already (escape_text), so that nothing that the agent says can
/// steer a terminal, whoever prints it. What is missing or has another type is empty, 0 or nullopt:
/// an older or newer agent is shown as far as it is understood. Pure; errors: bad_format for what
/// is no JSON object.
namespace andiron::cli {

struct ErrorBody {
  std::string code;
  std::string message;
  std::vector<std::string> details;
};

struct FileBody {
  std::string path;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> resident_bytes;
  std::uint64_t locked_bytes = 0;
  bool companion = false;
};

struct LoadBody {
  double locate_s = 0;
  double read_s = 0;
  double place_s = 0;
  double verify_s = 0;
  std::uint64_t bytes = 0;
};

struct ModelBody {
  std::string name;
  std::string source;
  std::string state;
  std::string priority;
  bool preload_boot = false;
  std::string want_tier;
  std::string want_hold;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> resident_bytes;  // in the page cache; nullopt is not known
  std::uint64_t locked_bytes = 0;
  std::string hold;         // what it has; empty for none
  std::string pinned_path;  // empty: no copy that could be read
  std::uint64_t pinned_bytes = 0;
  std::uint64_t evictions = 0;
  std::uint64_t evicted_bytes = 0;
  std::string last_used;
  // Of GET /v1/models/{name} only.
  std::vector<FileBody> files_detail;
  std::optional<LoadBody> last_load;
  std::optional<ErrorBody> last_error;
  std::vector<std::string> notes;
  std::vector<std::string> explain;
};

struct TierBody {
  std::string name;
  std::uint64_t used_bytes = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t headroom_bytes = 0;
  std::uint64_t draining_bytes = 0;
};

struct LaneBody {
  std::string lane;
  std::string device;
  std::uint64_t queued = 0;
  bool busy = false;
  double silent_s = 0;
};

struct CapabilityBody {
  std::string name;
  std::string state;
  std::string reason;
  std::string remedy;
};

struct StatusBody {
  std::string version;
  std::uint64_t pid = 0;
  double uptime_s = 0;
  std::string config_path;
  std::string config_loaded;
  std::uint64_t memory_limit = 0;
  std::uint64_t memory_available = 0;
  std::string memory_limited_by;
  std::uint64_t jobs = 0;
  std::vector<TierBody> tiers;
  std::vector<ModelBody> models;
  std::vector<LaneBody> lanes;
  std::vector<CapabilityBody> capabilities;
  std::vector<std::string> notes;
};

struct JobBody {
  std::uint64_t id = 0;
  std::string model;
  std::string state;
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::string started;
};

struct StepBody {
  std::string kind;
  std::string model;
  std::string hold;
  std::uint64_t bytes = 0;
  std::string reason;
};

struct PlanBody {
  std::vector<StepBody> steps;
  bool dry_run = false;
};

struct EventBody {
  std::string time;
  std::string type;
  std::string model;
  std::string file;
  std::uint64_t bytes = 0;
  std::string cause;
  std::string detail;
  bool by_known = false;
  std::uint64_t by_pid = 0;
  std::string by_comm;
  std::string by_cgroup;
  std::string by_container;
};

/// A line of a warm's answer: progress, or the end.
struct WarmLine {
  std::optional<std::uint64_t> job;
  std::string state;
  bool joined = false;  // somebody else started the job
  std::optional<std::uint64_t> done_bytes;
  std::optional<std::uint64_t> total_bytes;
  std::optional<ModelBody> model;
  std::optional<ErrorBody> warning;
  std::optional<ErrorBody> error;
  bool ended() const noexcept {
    return state == "done" || state == "failed" || state == "cancelled";
  }
};

struct TensorBody {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string file;  // a path, or an index
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct ResolvedBody {
  std::string source;
  std::uint64_t bytes = 0;
  std::vector<FileBody> files;  // those that "also" names are companions
  std::vector<TensorBody> tensors;
  std::vector<std::string> notes;
};

Result<StatusBody> parse_status(std::string_view text);
Result<std::vector<ModelBody>> parse_models(std::string_view text);
Result<ModelBody> parse_model(std::string_view text);
Result<std::vector<JobBody>> parse_jobs(std::string_view text);
Result<PlanBody> parse_plan(std::string_view text);
Result<std::vector<CapabilityBody>> parse_doctor(std::string_view text);
Result<ResolvedBody> parse_resolved(std::string_view text);
Result<EventBody> parse_event(std::string_view line);
Result<WarmLine> parse_warm_line(std::string_view line);
Result<std::uint64_t> parse_reloaded(std::string_view text);  // the number of models
/// Of an answer with an error status; what is no error body is quoted, shortened, as the message.
ErrorBody parse_error(unsigned status, std::string_view text);

struct WarmRequest {
  std::string source;  // empty for a configured model
  std::string tier;    // empty for its own
  std::string hold;
  bool wait = true;
  bool recharge = false;
};
/// Errors of these: bad_request for text that is no UTF-8, which JSON cannot carry.
Result<std::string> warm_request(const WarmRequest& request);
std::string drop_request(bool keep_pages);
Result<std::string> resolve_request(const std::string& source, const std::vector<std::string>& also,
                                    bool tensors);
/// What GET /v1/doctor would say of these.
std::string doctor_body(const std::vector<os::Capability>& capabilities);
/// `{"error":{...}}` as the agent would say it, for errors of our own under --json.
std::string error_body(std::string_view code, std::string_view message);

}  // namespace andiron::cli
