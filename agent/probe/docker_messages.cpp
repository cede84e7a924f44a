// SPDX-License-Identifier: MIT
#include "agent/probe/docker_messages.hpp"

#include <initializer_list>

#include "agent/base/json_walk.hpp"
#include "agent/probe/container_event.hpp"

namespace andiron::probe {
namespace {

/// An inspect nests eight levels or so.
constexpr std::size_t kMaxDepth = 32;
/// PID_MAX_LIMIT.
constexpr std::uint64_t kMaxPid = std::uint64_t{1} << 22;

using Kind = JsonEvent::Kind;
using Path = std::vector<std::string>;

bool at(const Path& path, std::initializer_list<std::string_view> keys) {
  return std::equal(path.begin(), path.end(), keys.begin(), keys.end());
}

std::string word(std::string_view text) {
  return is_container_word(text) ? std::string(text) : std::string();
}

/// "/ollama" is the container's own name, "/other/ollama" what a link of another calls it.
std::string own_name(std::string_view text) {
  if (text.starts_with('/')) text.remove_prefix(1);
  return word(text);
}

}  // namespace

Result<DockerEvent> parse_docker_event(std::string_view line) {
  DockerEvent event;
  TRY(walk_json(line, kMaxDepth, [&](const JsonEvent& json) -> Result<void> {
    if (json.kind == Kind::string) {
      if (at(json.path, {"Action"})) event.action = word(json.text);
      if (at(json.path, {"Actor", "ID"})) event.id = word(json.text);
      if (at(json.path, {"Actor", "Attributes", "name"})) event.name = own_name(json.text);
    } else if (json.kind == Kind::natural && at(json.path, {"timeNano"})) {
      event.time_ns = json.number;
    }
    return {};
  }));
  if (event.action.empty() || event.id.empty()) {
    return make_error(Errc::bad_format, "an event without an action or an id");
  }
  return event;
}

Result<std::vector<DockerListed>> parse_docker_list(std::string_view body, std::size_t most) {
  std::vector<DockerListed> list;
  DockerListed entry;
  TRY(walk_json(body, kMaxDepth, [&](const JsonEvent& json) -> Result<void> {
    if (json.path.empty() && json.kind != Kind::begin_array && json.kind != Kind::end_array) {
      return make_error(Errc::bad_format, "a list of containers that is none");
    }
    if (json.kind == Kind::string && at(json.path, {"", "Id"})) entry.id = word(json.text);
    if (json.kind == Kind::string && at(json.path, {"", "Names", ""})) {
      if (std::string name = own_name(json.text); !name.empty()) entry.name = std::move(name);
    }
    if (json.kind == Kind::end_object && at(json.path, {""})) {
      if (list.size() == most) return make_error(Errc::too_large, "a list of containers");
      if (!entry.id.empty()) list.push_back(std::move(entry));
      entry = {};
    }
    return {};
  }));
  return list;
}

Result<DockerState> parse_docker_state(std::string_view body) {
  DockerState state;
  TRY(walk_json(body, kMaxDepth, [&](const JsonEvent& json) -> Result<void> {
    if (json.kind == Kind::string) {
      if (at(json.path, {"Id"})) state.id = word(json.text);
      if (at(json.path, {"Name"})) state.name = own_name(json.text);
      if (at(json.path, {"State", "StartedAt"})) {
        if (const auto time = parse_time(json.text)) state.started_at = *time;
      }
    } else if (json.kind == Kind::natural && at(json.path, {"State", "Pid"}) && json.number > 0 &&
               json.number <= kMaxPid) {
      state.pid = static_cast<pid_t>(json.number);
    }
    return {};
  }));
  if (state.id.empty()) return make_error(Errc::bad_format, "a container's state without its id");
  return state;
}

}  // namespace andiron::probe
