// SPDX-License-Identifier: MIT
#include "agent/cli/bodies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

using Json = nlohmann::json;

const Json& member(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found != object.end() ? *found : kNothing;
}

std::string text(const Json& value) {
  return value.is_string() ? escape_text(value.get_ref<const std::string&>()) : std::string();
}
std::string text(const Json& object, const char* key) { return text(member(object, key)); }

std::optional<std::uint64_t> maybe_count(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}
std::uint64_t count(const Json& object, const char* key) {
  return maybe_count(object, key).value_or(0);
}

double number(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_number() ? value.get<double>() : 0.0;
}

bool flag(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_boolean() && value.get<bool>();
}

/// Each element of an array, through `decode`; anything else is no elements.
template <class Decode>
auto list(const Json& object, const char* key, Decode decode) {
  std::vector<decltype(decode(object))> result;
  const Json& value = member(object, key);
  if (!value.is_array()) return result;
  for (const Json& element : value)
    result.push_back(decode(element));
  return result;
}

std::vector<std::string> texts(const Json& object, const char* key) {
  return list(object, key, [](const Json& element) { return text(element); });
}

Result<Json> parse_object(std::string_view body) {
  Json value = Json::parse(body, nullptr, false);
  if (!value.is_object())
    return make_error(Errc::bad_format, "the agent's answer is no JSON object");
  return value;
}

/// JSON text, which must be UTF-8: nlohmann throws on what is not.
Result<std::string> dump(const Json& value) {
  try {
    return value.dump();
  } catch (const Json::exception&) {
    return make_error(Errc::bad_request, "the API carries UTF-8 only, and this name is not");
  }
}

std::optional<ErrorBody> decode_error(const Json& value) {
  if (!value.is_object()) return std::nullopt;
  return ErrorBody{text(value, "code"), text(value, "message"), texts(value, "details")};
}

FileBody decode_file(const Json& value) {
  return {text(value, "path"), count(value, "bytes"), maybe_count(value, "resident_bytes"),
          count(value, "locked_bytes"), flag(value, "companion")};
}

ModelBody decode_model(const Json& value) {
  ModelBody model;
  model.name = text(value, "name");
  model.source = text(value, "source");
  model.state = text(value, "state");
  model.priority = text(value, "priority");
  const std::vector<std::string> preload = texts(value, "preload");
  model.preload_boot = std::find(preload.begin(), preload.end(), "boot") != preload.end();
  model.want_tier = text(member(value, "want"), "tier");
  model.want_hold = text(member(value, "want"), "hold");
  model.files = count(value, "files");
  model.bytes = count(value, "bytes");
  const Json& page_cache = member(member(value, "tiers"), "page-cache");
  model.resident_bytes = maybe_count(page_cache, "resident_bytes");
  model.locked_bytes = count(page_cache, "locked_bytes");
  model.hold = text(page_cache, "hold");
  const Json& pinned = member(member(value, "tiers"), "pinned-ram");
  model.pinned_bytes = count(pinned, "resident_bytes");
  model.pinned_path = text(pinned, "path");
  model.evictions = count(member(value, "evictions"), "count");
  model.evicted_bytes = count(member(value, "evictions"), "bytes");
  model.last_used = text(value, "last_used");
  model.files_detail = list(value, "files_detail", decode_file);
  if (const Json& load = member(value, "last_load"); load.is_object()) {
    model.last_load =
        LoadBody{number(load, "locate_s"), number(load, "read_s"), number(load, "place_s"),
                 number(load, "verify_s"), count(load, "bytes")};
  }
  model.last_error = decode_error(member(value, "last_error"));
  model.notes = texts(value, "notes");
  model.explain = texts(value, "explain");
  return model;
}

TierBody decode_tier(const Json& value, std::string name) {
  return {std::move(name), count(value, "used_bytes"), count(value, "budget_bytes"),
          count(value, "headroom_bytes"), count(value, "draining_bytes")};
}

std::vector<TierBody> decode_tiers(const Json& tiers) {
  std::vector<TierBody> result;
  for (const char* name : {"page-cache", "pinned-ram"}) {
    if (const Json& tier = member(tiers, name); tier.is_object()) {
      result.push_back(decode_tier(tier, name));
    }
  }
  for (TierBody& gpu : list(tiers, "vram", [](const Json& tier) {
         return decode_tier(tier, "vram " + text(tier, "gpu"));
       })) {
    result.push_back(std::move(gpu));
  }
  return result;
}

LaneBody decode_lane(const Json& value) {
  return {text(value, "lane"), text(value, "device"), count(value, "queued"), flag(value, "busy"),
          number(value, "silent_s")};
}

CapabilityBody decode_capability(const Json& value) {
  return {text(value, "name"), text(value, "state"), text(value, "reason"), text(value, "remedy")};
}

TensorBody decode_tensor(const Json& value) {
  TensorBody tensor;
  tensor.name = text(value, "name");
  tensor.dtype = text(value, "dtype");
  tensor.shape = list(value, "shape", [](const Json& dimension) {
    return dimension.is_number_unsigned() ? dimension.get<std::uint64_t>() : std::uint64_t{0};
  });
  const Json& file = member(value, "file");
  tensor.file =
      file.is_number_unsigned() ? fmt::format("{}", file.get<std::uint64_t>()) : text(file);
  tensor.offset = count(value, "offset");
  tensor.bytes = count(value, "bytes");
  return tensor;
}

}  // namespace

Result<StatusBody> parse_status(std::string_view body) {
  const Json value = TRY(parse_object(body));
  StatusBody status;
  status.version = text(value, "version");
  status.pid = count(value, "pid");
  status.uptime_s = number(value, "uptime_s");
  status.config_path = text(member(value, "config"), "path");
  status.config_loaded = text(member(value, "config"), "loaded");
  const Json& memory = member(value, "memory");
  status.memory_limit = count(memory, "limit_bytes");
  status.memory_available = count(memory, "available_bytes");
  status.memory_limited_by = text(memory, "limited_by");
  status.jobs = count(value, "jobs");
  status.tiers = decode_tiers(member(value, "tiers"));
  status.models = list(value, "models", decode_model);
  status.lanes = list(value, "lanes", decode_lane);
  status.capabilities = list(value, "capabilities", decode_capability);
  status.notes = texts(value, "notes");
  return status;
}

Result<std::vector<ModelBody>> parse_models(std::string_view body) {
  return list(TRY(parse_object(body)), "models", decode_model);
}

Result<ModelBody> parse_model(std::string_view body) {
  return decode_model(TRY(parse_object(body)));
}

Result<std::vector<JobBody>> parse_jobs(std::string_view body) {
  return list(TRY(parse_object(body)), "jobs", [](const Json& job) {
    return JobBody{count(job, "id"),         text(job, "model"),        text(job, "state"),
                   count(job, "done_bytes"), count(job, "total_bytes"), text(job, "started")};
  });
}

Result<PlanBody> parse_plan(std::string_view body) {
  const Json value = TRY(parse_object(body));
  PlanBody plan;
  plan.dry_run = flag(value, "dry_run");
  plan.steps = list(value, "steps", [](const Json& step) {
    return StepBody{text(step, "kind"), text(step, "model"), text(step, "hold"),
                    count(step, "bytes"), text(step, "reason")};
  });
  return plan;
}

Result<std::vector<CapabilityBody>> parse_doctor(std::string_view body) {
  return list(TRY(parse_object(body)), "capabilities", decode_capability);
}

Result<ResolvedBody> parse_resolved(std::string_view body) {
  const Json value = TRY(parse_object(body));
  ResolvedBody resolved;
  resolved.source = text(value, "source");
  resolved.bytes = count(value, "bytes");
  resolved.files = list(value, "files", decode_file);
  const std::vector<std::string> also = texts(value, "also");
  for (FileBody& file : resolved.files)
    file.companion = std::find(also.begin(), also.end(), file.path) != also.end();
  resolved.tensors = list(value, "tensors", decode_tensor);
  resolved.notes = texts(value, "notes");
  return resolved;
}

Result<EventBody> parse_event(std::string_view line) {
  const Json value = TRY(parse_object(line));
  EventBody event;
  event.time = text(value, "time");
  event.type = text(value, "type");
  event.model = text(value, "model");
  event.file = text(value, "file");
  event.bytes = count(value, "bytes");
  event.cause = text(value, "cause");
  event.detail = text(value, "detail");
  const Json& by = member(value, "by");
  event.by_known = by.is_object();
  event.by_pid = count(by, "pid");
  event.by_comm = text(by, "comm");
  event.by_cgroup = text(by, "cgroup");
  event.by_container = text(by, "container");
  return event;
}

Result<WarmLine> parse_warm_line(std::string_view line) {
  const Json value = TRY(parse_object(line));
  WarmLine result;
  result.job = maybe_count(value, "job");
  result.state = text(value, "state");
  result.joined = flag(value, "joined");
  result.done_bytes = maybe_count(value, "done_bytes");
  result.total_bytes = maybe_count(value, "total_bytes");
  if (const Json& model = member(value, "model"); model.is_object()) {
    result.model = decode_model(model);
  }
  result.warning = decode_error(member(value, "warning"));
  result.error = decode_error(member(value, "error"));
  return result;
}

Result<std::uint64_t> parse_reloaded(std::string_view body) {
  return count(TRY(parse_object(body)), "models");
}

ErrorBody parse_error(unsigned status, std::string_view body) {
  const Json value = Json::parse(body, nullptr, false);
  if (auto error = decode_error(member(value, "error"))) return *error;
  constexpr std::size_t kQuoted = 200;  // columns: enough to recognise a proxy's page
  return {"bad_format",
          fmt::format("status {} with: {}", status, shorten(escape_text(body), kQuoted)),
          {}};
}

Result<std::string> warm_request(const WarmRequest& request) {
  Json body = Json::object();
  if (!request.source.empty()) body["source"] = request.source;
  if (!request.tier.empty()) body["tier"] = request.tier;
  if (!request.hold.empty()) body["hold"] = request.hold;
  body["wait"] = request.wait;
  if (request.recharge) body["recharge"] = true;
  return dump(body);
}

std::string drop_request(bool keep_pages) { return keep_pages ? R"({"keep_pages":true})" : "{}"; }

Result<std::string> resolve_request(const std::string& source, const std::vector<std::string>& also,
                                    bool tensors) {
  return dump(Json{{"source", source}, {"also", also}, {"tensors", tensors}});
}

std::string doctor_body(const std::vector<os::Capability>& capabilities) {
  Json list = Json::array();
  for (const os::Capability& capability : capabilities) {
    const char* state = "off";
    if (capability.state == os::Capability::State::on) state = "on";
    if (capability.state == os::Capability::State::degraded) state = "degraded";
    list.push_back({{"name", capability.name},
                    {"state", state},
                    {"reason", capability.reason},
                    {"remedy", capability.remedy}});
  }
  return Json{{"capabilities", list}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string error_body(std::string_view code, std::string_view message) {
  const Json body{{"error", {{"code", code}, {"message", message}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace andiron::cli
