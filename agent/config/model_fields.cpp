// SPDX-License-Identifier: MIT
#include "agent/config/model_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "agent/base/guest_source.hpp"
#include "agent/config/read_value.hpp"

namespace andiron::config {
namespace {

constexpr std::string_view kContainer = "container:";

/// What is wrong with a source as far as its text shows; empty where nothing is. `in_guest` is the
/// part before it that names a guest.
std::string problem_with_source(std::string_view source, std::string_view in_guest = "") {
  const std::size_t colon = source.find(':');
  const std::string_view scheme = source.substr(0, colon);
  if (source.substr(0, 1) == "/") return "";
  const bool has_rest = colon != std::string_view::npos && colon + 1 < source.size();
  if (has_rest && (scheme == "ollama" || scheme == "hf")) return "";
  if (in_guest.empty() && source.starts_with(kGuestPrefix)) {
    const auto inside = split_guest_source(source);
    if (!inside) {
      return "must be \"guest:NAME:SOURCE\", not " + std::string(in_quotes(source));
    }
    const auto before = source.substr(0, source.size() - inside->rest.size());
    return problem_with_source(inside->rest, before);
  }
  const bool inside = !in_guest.empty();
  std::string problem = inside ? fmt::format(
                                     "must have an absolute path, \"ollama:NAME\" or "
                                     "\"hf:ORG/NAME\" after {}, not ",
                                     in_quotes(in_guest))
                               : "must be an absolute path, \"ollama:NAME\", \"hf:ORG/NAME\" or "
                                 "\"guest:NAME:SOURCE\", not ";
  problem += in_quotes(source);
  if (has_rest && inside) problem += did_you_mean(scheme, {"ollama", "hf"});
  if (has_rest && !inside) problem += did_you_mean(scheme, {"ollama", "hf", "guest"});
  return problem;
}

void read_source(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  const auto text = read_text(entry, errors);
  if (!text) return;
  const std::string problem = problem_with_source(*text);
  if (!problem.empty()) return add_error(entry, problem, errors);
  model.source = *text;
}

void read_also(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  const auto texts = read_text_list(entry, errors);
  if (!texts) return;
  for (const auto& [at, text] : *texts) {
    const std::string problem = problem_with_source(text);
    if (problem.empty()) {
      model.also.push_back(text);
    } else {
      errors.add(at, fmt::format("\"{}\" {}", entry.key, problem));
    }
  }
}

void read_tier(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  read_choice<Tier>(entry,
                    {{to_string(Tier::page_cache), Tier::page_cache},
                     {to_string(Tier::pinned_ram), Tier::pinned_ram},
                     {to_string(Tier::vram), Tier::vram}},
                    model.tier, errors);
}

void read_hold(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  read_choice<std::optional<Hold>>(entry,
                                   {{"auto", std::nullopt},
                                    {to_string(Hold::cached), Hold::cached},
                                    {to_string(Hold::mapped), Hold::mapped},
                                    {to_string(Hold::protected_), Hold::protected_},
                                    {to_string(Hold::locked), Hold::locked}},
                                   model.hold, errors);
}

void read_priority(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  read_choice<Priority>(entry,
                        {{to_string(Priority::background), Priority::background},
                         {to_string(Priority::batch), Priority::batch},
                         {to_string(Priority::normal), Priority::normal},
                         {to_string(Priority::interactive), Priority::interactive},
                         {to_string(Priority::critical), Priority::critical}},
                        model.priority, errors);
}

void read_keep_alive(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  constexpr const char* kExpected = "must be \"auto\", \"forever\" or a time such as \"30m\"";
  if (!std::holds_alternative<std::string>(entry.value.data)) {
    return add_error(entry, fmt::format("{}, not {}", kExpected, kind_of(entry.value)), errors);
  }
  const auto text = read_text(entry, errors);
  if (!text) return;
  if (*text == "auto") {
    model.keep_alive = {};
    return;
  }
  if (*text == "forever") {
    model.keep_alive.kind = KeepAlive::Kind::forever;
    return;
  }
  const auto duration = parse_duration(*text);
  if (!duration) {
    const std::string hint = did_you_mean(*text, {"auto", "forever"});
    return add_error(entry, fmt::format("{}, not {}{}", kExpected, in_quotes(*text), hint), errors);
  }
  if (duration->count() == 0) return add_error(entry, "must be longer than 0", errors);
  model.keep_alive = {KeepAlive::Kind::fixed, *duration};
}

void add_preload(const PlacedText& item, ModelSettings& model, Diagnostics& errors) {
  const std::string& text = item.text;
  Preload& preload = model.preload;
  if (text == "boot") {
    preload.boot = true;
  } else if (text == "never") {
    preload.never = true;
  } else if (text.starts_with(kContainer)) {
    std::string name = text.substr(kContainer.size());
    if (!is_container_name(name)) {
      return errors.add(item.at,
                        fmt::format("\"preload\" has no container name in {}", in_quotes(text)));
    }
    const auto& known = preload.containers;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      preload.containers.push_back(std::move(name));
    }
  } else {
    errors.add(
        item.at,
        fmt::format("\"preload\" must be \"boot\", \"container:NAME\" or \"never\", not {}{}",
                    in_quotes(text), did_you_mean(text, {"boot", "never"})));
  }
}

void read_preload(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  if (std::holds_alternative<std::string>(entry.value.data)) {
    const auto text = read_text(entry, errors);
    if (text) add_preload({entry.value.at, *text}, model, errors);
  } else if (std::holds_alternative<RawArray>(entry.value.data)) {
    const auto texts = read_text_list(entry, errors);
    if (!texts) return;
    for (const PlacedText& item : *texts)
      add_preload(item, model, errors);
  } else {
    return add_wrong_type(entry, "a string or an array of strings", errors);
  }
  if (model.preload.never && (model.preload.boot || !model.preload.containers.empty())) {
    add_error(entry, "cannot have \"never\" beside others", errors);
  }
}

void read_load_s(const RawEntry& entry, ModelSettings& model, Diagnostics& errors) {
  double seconds = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&entry.value.data)) {
    seconds = static_cast<double>(*whole);
  } else if (const auto* decimal = std::get_if<double>(&entry.value.data)) {
    seconds = *decimal;
  } else {
    return add_wrong_type(entry, "a number of seconds", errors);
  }
  // A day: no model takes longer, and it keeps sums of it far from overflow. NaN fails as well.
  if (!(seconds >= 0 && seconds <= 86'400)) {
    return add_error(entry, "must be from 0 to 86400 seconds", errors);
  }
  model.load_s = seconds;
}

using ModelField = Field<ModelSettings>;
constexpr std::array<ModelField, 10> kFields{{
    {"name", [](const RawEntry& e, ModelSettings& m, Diagnostics& d) { read_name(e, m.name, d); }},
    {"source", read_source},
    {"tier", read_tier},
    {"hold", read_hold},
    {"also", read_also},
    {"priority", read_priority},
    {"keep_alive", read_keep_alive},
    {"preload", read_preload},
    {"bytes",
     [](const RawEntry& e, ModelSettings& m, Diagnostics& d) { m.bytes = read_bytes(e, d); }},
    {"load_s", read_load_s},
}};

}  // namespace

std::span<const ModelField> model_fields() noexcept { return kFields; }

ModelSettings read_model(const RawValue& value, const RawTable& table, Diagnostics& errors) {
  ModelSettings model;
  read_fields(table, kModelTitle, model_fields(), model, errors);
  for (const std::string_view key : {"name", "source"}) {
    if (find_entry(table, key) == nullptr) {
      errors.add(value.at, fmt::format("{} has no \"{}\"", kModelTitle, key));
    }
  }
  if (model.hold && model.tier != Tier::page_cache) {
    const RawEntry* hold = find_entry(table, "hold");
    errors.add(hold->value.at,
               fmt::format("\"hold\" is for tier \"page-cache\"; leave it out where "
                           "\"tier\" is {}",
                           in_quotes(to_string(model.tier))));
  }
  return model;
}

}  // namespace andiron::config
