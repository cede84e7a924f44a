// SPDX-License-Identifier: MIT
#include "agent/core/model_resolver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "agent/base/log.hpp"
#include "agent/os/path_opener.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// Stores move rarely, and looking for them reads all of /proc.
constexpr auto kPlacesLast = 30s;

bool names_a_store(const config::ModelSettings& settings) {
  const auto of_store = [](const std::string& source) {
    return source.starts_with("ollama:") || source.starts_with("hf:");
  };
  return of_store(settings.source) ||
         std::any_of(settings.also.begin(), settings.also.end(), of_store);
}

/// Errors that say that the bytes we hold are not what the source means any longer, in contrast to
/// those that say that we could not look.
bool ends_holds(Errc code) {
  switch (code) {
    case Errc::source_not_found:
    case Errc::incomplete_shards:
    case Errc::truncated:
    case Errc::bad_format:
    case Errc::not_regular_file:
    case Errc::symlink_loop:
    case Errc::outside_roots:
    case Errc::stale:
      return true;
    default:
      return false;
  }
}

bool same_files(const ResolvedModel& a, const ResolvedModel& b) {
  return std::equal(
      a.source.files.begin(), a.source.files.end(), b.source.files.begin(), b.source.files.end(),
      [](const auto& x, const auto& y) { return x.path == y.path && x.identity == y.identity; });
}

}  // namespace

void ModelResolver::refresh(ModelRecord& record, std::function<void()> then) {
  if (then) after_resolve_[record.name].push_back(std::move(then));
  if (!record.resolving) resolve(record);
}

ModelResolver::Resolution ModelResolver::resolve_blocking(
    const config::ModelSettings& settings, const std::optional<std::vector<std::string>>& roots,
    const std::shared_ptr<const catalog::Places>& known,
    const std::map<std::string, std::string>& environment) {
  Resolution answer{make_error(Errc::unavailable, ""), {}, false};
  catalog::ResolveOptions options;
  options.allow_roots = roots;
  if (known) {
    options.places = *known;
  } else if (names_a_store(settings)) {
    options.places = answer.places = catalog::find_places("", environment);
    answer.places_fresh = true;
  }
  auto found = catalog::resolve(settings.source, settings.also, options);
  if (!found) {
    answer.model = std::move(found).error();
    return answer;
  }
  ResolvedModel model;
  model.source = std::move(*found);
  std::map<std::uint64_t, std::uint32_t> by_dev;  // one look a file system
  os::PathOpener opener;
  for (const catalog::ModelFile& file : model.source.files) {
    auto known_device = by_dev.find(file.identity.dev);
    if (known_device == by_dev.end()) {
      os::DeviceTraits traits;
      traits.lane = fmt::format("dev:{}", file.identity.dev);
      if (const auto fd = opener.open_regular(file.path)) {
        if (auto seen = os::device_traits(fd->get())) traits = std::move(*seen);
      }
      known_device =
          by_dev.emplace(file.identity.dev, static_cast<std::uint32_t>(model.devices.size())).first;
      model.devices.push_back(std::move(traits));
    }
    model.device_of.push_back(known_device->second);
  }
  answer.model = std::move(model);
  return answer;
}

void ModelResolver::resolve(ModelRecord& record) {
  record.resolving = true;
  const bool places_known = places_ && world_.clock.now() - places_at_ < kPlacesLast;
  std::optional<std::vector<std::string>> roots;
  if (!record.configured) roots = world_.settings.agent.allow_roots;
  world_.slow.run_at(
      world_.place_of(record),
      [settings = record.settings, roots = std::move(roots),
       known = places_known ? places_ : nullptr, environment = world_.environment] {
        return resolve_blocking(settings, roots, known, environment);
      },
      [this, name = record.name, asked = record.settings](Resolution resolution) {
        on_resolved(name, asked, std::move(resolution));
      });
}

void ModelResolver::on_resolved(const std::string& name, const config::ModelSettings& asked,
                                Resolution resolution) {
  if (resolution.places_fresh) {
    places_ = std::make_shared<const catalog::Places>(std::move(resolution.places));
    places_at_ = world_.clock.now();
  }
  if (ModelRecord* record = world_.models.find(name)) {
    if (record->settings.source != asked.source || record->settings.also != asked.also) {
      return resolve(*record);  // A reload changed it meanwhile.
    }
    record->resolving = false;
    record->resolved_at = world_.clock.now();
    if (resolution.model) {
      take_resolution(*record, std::move(*resolution.model));
    } else {
      fail_resolution(*record, std::move(resolution.model).error());
    }
    hooks_.resolved(*record);
  }
  const auto node = after_resolve_.extract(name);
  if (node.empty()) return;
  for (const auto& then : node.mapped())
    then();
}

void ModelResolver::take_resolution(ModelRecord& record, ResolvedModel fresh) {
  record.resolve_error.reset();
  if (record.resolved && same_files(*record.resolved, fresh)) {
    record.resolved = std::move(fresh);
    return;
  }
  if (record.resolved) {
    std::set<std::pair<tier::FileKey, std::int64_t>> kept;
    for (const auto& file : fresh.source.files) {
      kept.emplace(tier::key_of(file.identity), file.identity.ctime_ns);
    }
    for (const auto& file : record.resolved->source.files) {
      const tier::FileKey key = tier::key_of(file.identity);
      if (!kept.contains({key, file.identity.ctime_ns})) hooks_.forget(record, key);
    }
    record.stale = record.ever_warmed && record.wanted;
    world_.note(probe::EventType::model_changed, record, fresh.source.bytes);
    log::info({.model = record.name, .event = to_string(probe::EventType::model_changed)},
              "{}: its files changed; the new ones are taken", record.name);
    hooks_.outdated(record, make_error(Errc::stale, record.name));
  }
  ++world_.resolutions;
  record.resolved = std::move(fresh);
  record.samples.assign(record.resolved->source.files.size(), FileSample{std::nullopt, ""});
  record.sampled_at.reset();
  record.last_error.reset();
  world_.reconcile_soon();
}

void ModelResolver::fail_resolution(ModelRecord& record, Error error) {
  const Errc code = error.errc();
  const bool news = !record.resolve_error || record.resolve_error->errc() != code;
  const bool keeps = record.resolved && !ends_holds(code);
  const bool gone = code == Errc::source_not_found || code == Errc::incomplete_shards;
  std::optional<probe::EventType> event;
  if (!keeps && news && gone) {
    event = probe::EventType::model_missing;
  } else if (!keeps && record.resolved) {
    event = probe::EventType::model_changed;
  }
  if (news || event) {
    log::warning(
        {.model = record.name, .event = event ? to_string(*event) : "", .error = error_name(code)},
        "{}: {} ({})", record.name, error.message(), error_name(code));
  }
  if (keeps) {
    record.last_error = std::move(error);
    return;
  }
  if (event) {
    const bool missing = *event == probe::EventType::model_missing;
    world_.note(*event, record, missing ? record.bytes() : 0, {}, error.message());
  }
  for (const tier::FileKey& key : record.keys())
    hooks_.forget(record, key);
  record.resolved.reset();
  record.samples.clear();
  record.resolve_error = std::move(error);
  record.stale = false;
  hooks_.outdated(record, *record.resolve_error);
}

}  // namespace andiron::core
