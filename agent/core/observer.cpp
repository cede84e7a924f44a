// SPDX-License-Identifier: MIT
#include "agent/core/observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/base/guest_source.hpp"
#include "agent/base/log.hpp"
#include "agent/catalog/duplicates.hpp"
#include "agent/catalog/scope.hpp"
#include "agent/os/file.hpp"
#include "agent/os/path_opener.hpp"
#include "agent/os/pressure.hpp"
#include "agent/os/residency.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// Models that are to be warm are looked at this often; a walk is some milliseconds for tens of
/// GiB. The rest only so that status is not far from the truth.
constexpr auto kSampleWanted = 2s;
constexpr auto kSampleOthers = 20s;
/// At most this share of one core goes into walks.
constexpr int kWalkShare = 50;
/// A missing or broken model is looked for this often besides what inotify tells.
constexpr auto kLookAgain = 10s;
/// A file that is being written is looked at when it has been quiet for so long.
constexpr auto kSettleContent = 1500ms;
constexpr auto kSettleNames = 300ms;
constexpr auto kLongestSettle = 10s;
/// "some" memory stall, as a share of time, from which the agent adds no load of its own.
constexpr double kHighPressure = 0.10;

/// Who waits for one sample: as many as there may be connections. While a disk does not answer, who
/// asks beyond that gets what was known before.
constexpr std::size_t kMaxWaiting = 256;

}  // namespace

Result<std::unique_ptr<Observer>> Observer::create(World& world, Warmer& warmer) {
  auto watch = TRY(probe::FileWatch::create());
  return std::unique_ptr<Observer>(
      new Observer(world, warmer, std::make_shared<probe::FileWatch>(std::move(watch))));
}

Observer::Observer(World& world, Warmer& warmer, std::shared_ptr<probe::FileWatch> watch)
    : world_(world), warmer_(warmer), watch_(std::move(watch)) {
  read_memory();
}

void Observer::tick() {
  read_memory();
  read_pressure();
  compare_models();
  const SteadyTime now = world_.clock.now();
  world_.models.each([&](ModelRecord& record) {
    const bool lost = record.resolve_error && record.resolved_at &&
                      now - *record.resolved_at > kLookAgain && !record.resolving;
    if (lost || (record.recheck_at && *record.recheck_at <= now)) {
      record.recheck_at.reset();
      warmer_.refresh(record, {});
    } else if (sample_due(record, now)) {
      sample(record, {});
    }
  });
}

/// Looks for weights that lie in memory twice, once the models have been the same for a tick.
void Observer::compare_models() {
  const std::uint64_t now = world_.resolutions;
  const bool settled = std::exchange(resolutions_seen_, now) == now;
  // It reads files of all disks, any of which may not answer: one thread may wait for that.
  if (comparing_ || !settled || std::exchange(resolutions_compared_, now) == now) return;
  std::vector<catalog::Resolved> models;
  world_.models.each([&](const ModelRecord& record) {
    if (record.resolved) models.push_back(record.resolved->source);
  });
  comparing_ = true;
  world_.slow.run(
      [models = std::move(models)] {
        std::vector<const catalog::Resolved*> list;
        for (const catalog::Resolved& model : models)
          list.push_back(&model);
        return catalog::find_duplicates(list);
      },
      [this](std::vector<std::string> found) {
        comparing_ = false;
        world_.duplicates = std::move(found);
      });
}

void Observer::read_memory() {
  auto view = os::read_memory();
  if (!view) {
    log::warning("memory cannot be read, going on with what was known: {}", view.error().message());
    return;
  }
  const bool shrank = view->limit < world_.memory.view.limit;
  world_.memory.view = std::move(*view);
  world_.apply_budget();
  const os::MemoryView& seen = world_.memory.view;
  if (shrank || seen.available < world_.memory.headroom ||
      world_.ledger.used() > world_.ledger.budget()) {
    world_.reconcile_soon();
  }
}

void Observer::read_pressure() {
  const auto pressure = os::read_pressure("memory");
  if (!pressure) return;  // doctor says so
  const SteadyTime now = world_.clock.now();
  if (stall_read_at_ && now > *stall_read_at_) {
    const double elapsed = std::chrono::duration<double, std::micro>(now - *stall_read_at_).count();
    const double share = static_cast<double>(pressure->some.total_us - memory_stall_us_) / elapsed;
    const bool high = share > kHighPressure;
    if (high != world_.memory.under_pressure) {
      world_.memory.under_pressure = high;
      if (high) {
        probe::Event event;
        event.time = world_.clock.wall();
        event.type = probe::EventType::memory_pressure;
        event.detail =
            fmt::format("tasks waited for memory {:.0f} % of the last second", share * 100);
        world_.events.append(std::move(event));
      }
      world_.reconcile_soon();
    }
  }
  memory_stall_us_ = pressure->some.total_us;
  stall_read_at_ = now;
}

bool Observer::sample_due(const ModelRecord& record, SteadyTime now) const {
  if (!record.resolved || record.sampling || record.job != 0) return false;
  if (!record.sampled_at) return true;
  const auto gentle = walk_time_ * kWalkShare;
  const std::chrono::nanoseconds wish =
      record.wanted ? std::chrono::nanoseconds(kSampleWanted) : kSampleOthers;
  return now - *record.sampled_at >= std::max(wish, gentle);
}

bool Observer::walked_lately(const ModelRecord& record) const {
  if (!record.sampled_at) return false;
  return world_.clock.now() - *record.sampled_at <
         std::max<std::chrono::nanoseconds>(kSampleWanted, walk_time_ * kWalkShare);
}

void Observer::sample(ModelRecord& record, std::function<void()> then) {
  if (!record.resolved) {
    if (then) then();
    return;
  }
  if (then) {
    auto& waiting = after_sample_[record.name];
    if (waiting.size() >= kMaxWaiting) return then();
    waiting.push_back(std::move(then));
  }
  if (record.sampling) return;
  record.sampling = true;
  std::vector<tier::FillFile> files;
  for (const catalog::ModelFile& file : record.resolved->source.files) {
    files.push_back({file.path, file.identity});
  }
  world_.slow.run_at(
      world_.place_of(record),
      [files = std::move(files), devices = record.resolved->devices,
       device_of = record.resolved->device_of,
       before = record.samples] { return look(files, devices, device_of, before); },
      [this, name = record.name, began = world_.clock.now()](std::vector<Looked> found) {
        on_looked(name, std::move(found), began);
      });
}

std::vector<Observer::Looked> Observer::look(const std::vector<tier::FillFile>& files,
                                             const std::vector<os::DeviceTraits>& devices,
                                             const std::vector<std::uint32_t>& device_of,
                                             const std::vector<FileSample>& before) {
  std::vector<Looked> found(files.size());
  os::PathOpener opener;
  std::vector<bool> asleep;
  for (const os::DeviceTraits& device : devices) {
    asleep.push_back(device.rotational && os::in_standby(device));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (asleep[device_of[i]]) {  // Opening a file might wake its disk.
      if (i < before.size()) found[i].sample = before[i];
      continue;
    }
    const auto fd = opener.open_regular(files[i].path);
    const auto info = fd ? os::stat_fd(fd->get()) : Result<os::FileInfo>(fd.error());
    if (!info || info->identity != files[i].identity) {
      found[i].same = false;
      continue;
    }
    os::Residency residency = os::read_residency(fd->get(), info->identity.size);
    found[i].sample = {residency.resident_bytes, std::move(residency.reason)};
  }
  return found;
}

void Observer::on_looked(const std::string& name, std::vector<Looked> found, SteadyTime began) {
  walk_time_ = std::max(walk_time_ / 2, world_.clock.now() - began);
  ModelRecord* record = world_.models.find(name);
  if (record != nullptr) {
    record->sampling = false;
    // A job that ran, or a change, meanwhile knows better than this walk.
    const bool current = record->job == 0 && found.size() == record->samples.size() &&
                         (!record->sampled_at || *record->sampled_at <= began);
    if (current) {
      bool changed = false;
      std::uint64_t lost = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        changed = changed || !found[i].same;
        const auto before = record->samples[i].resident;
        const auto after = found[i].sample.resident;
        if (before && after && *after < *before) lost += *before - *after;
        record->samples[i] = std::move(found[i].sample);
      }
      record->sampled_at = world_.clock.now();
      if (changed) {
        if (!record->recheck_at) recheck(*record, kSettleNames);
      } else if (lost > 0 && record->wanted_tier() == Tier::page_cache) {
        note_eviction(*record, lost);
      }
    }
  }
  const auto node = after_sample_.extract(name);
  if (node.empty()) return;
  for (const auto& then : node.mapped())
    then();
}

void Observer::note_eviction(ModelRecord& record, std::uint64_t bytes) {
  if (!record.ever_warmed) return;  // Pages that we never claimed came and went.
  ++record.evictions;
  record.evicted_bytes += bytes;
  probe::Event event;
  event.time = world_.clock.wall();
  event.type = probe::EventType::model_evicted;
  event.model = record.name;
  event.bytes = bytes;
  event.cause = probe::Cause::unknown;
  world_.events.append(std::move(event));
  if (const auto untold = record.evicted_to_tell(bytes, world_.clock.now())) {
    log::info({.model = record.name, .event = to_string(probe::EventType::model_evicted)},
              "{}: {} of its {} were evicted", record.name, format_bytes(*untold),
              format_bytes(record.bytes()));
  }
  // Soon when it was warm for long; later and later when it is lost as fast as it comes.
  const SteadyTime now = world_.clock.now();
  const bool lasted =
      record.last_load && world_.clock.wall() - record.last_load->at > std::chrono::minutes(10);
  if (lasted || record.back_off == 0ms) {
    record.back_off = 2'500ms;
    record.retry_after = now + record.back_off;
  } else {
    record.back_off = std::min<std::chrono::milliseconds>(record.back_off * 2, 30min);
    record.retry_after = now + record.back_off;
  }
  world_.reconcile_soon();
}

void Observer::recheck(ModelRecord& record, std::chrono::milliseconds settle) {
  const SteadyTime now = world_.clock.now();
  if (!record.recheck_at) record.recheck_asked = now;
  // What keeps changing puts the look off, but not for ever.
  const SteadyTime latest = record.recheck_asked + kLongestSettle;
  record.recheck_at = std::min(std::max(record.recheck_at.value_or(now), now + settle), latest);
}

void Observer::on_file_changes() {
  for (const probe::FileChange& change : watch_->drain()) {
    if (change.kind == probe::FileChange::Kind::overflow) {
      world_.models.each([&](ModelRecord& record) { recheck(record, kSettleNames); });
      continue;
    }
    const auto who = watchers_.find(change.watch);
    if (who == watchers_.end()) continue;
    for (const std::string& name : who->second) {
      ModelRecord* record = world_.models.find(name);
      if (record == nullptr) continue;
      const bool content = change.kind == probe::FileChange::Kind::content;
      // A file under change is not what it was: say so now, take the new one when it keeps still.
      if (content && record->ever_warmed && record->wanted && record->job == 0) {
        record->stale = true;
      }
      recheck(*record, content ? kSettleContent : kSettleNames);
    }
  }
}

void Observer::on_mount_change() {
  world_.read_mounts();
  world_.models.each([&](ModelRecord& record) { recheck(record, kSettleNames); });
}

std::vector<std::string> Observer::folders_to_watch(const config::ModelSettings& settings,
                                                    const std::optional<ResolvedModel>& resolved) {
  std::set<std::string> folders;
  if (resolved) {
    for (const std::string& path : resolved->source.watch)
      folders.insert(path);
    for (const catalog::ModelFile& file : resolved->source.files) {
      folders.insert(catalog::parent_path(file.path));
    }
  } else if (settings.source.starts_with('/') || split_guest_path(settings.source)) {
    folders.insert(settings.source);
  }
  return {folders.begin(), folders.end()};
}

void Observer::watch(ModelRecord& record) {
  struct Added {
    std::vector<probe::WatchId> ids;
    std::optional<Error> error;
  };
  std::vector<tier::FillFile> files;
  if (record.resolved) {
    for (const catalog::ModelFile& file : record.resolved->source.files) {
      files.push_back({file.path, file.identity});
    }
  }
  world_.slow.run_at(
      world_.place_of(record),
      [watch = watch_, files = std::move(files), settings = record.settings,
       resolved = record.resolved] {
        Added added;
        os::PathOpener opener;
        const auto keep = [&](Result<probe::WatchId> id) {
          if (id) {
            added.ids.push_back(*id);
          } else if (!added.error && id.error().errc() == Errc::unavailable) {
            added.error = std::move(id).error();
          }
        };
        for (const tier::FillFile& file : files) {
          if (const auto fd = opener.open_regular(file.path)) keep(watch->add_file(fd->get()));
        }
        std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
        for (const std::string& path : folders_to_watch(settings, resolved)) {
          const auto folder = opener.open_nearest_folder(path);
          const auto info =
              folder ? os::stat_fd(folder->get()) : Result<os::FileInfo>(folder.error());
          if (info && seen.emplace(info->identity.dev, info->identity.ino).second) {
            keep(watch->add_folder(folder->get()));
          }
        }
        return added;
      },
      [this, name = record.name](Added added) {
        if (added.error && !watch_limit_said_) {
          watch_limit_said_ = true;
          world_.note_degraded(added.error->message() +
                               "; changes of some files are noticed by polling only");
        }
        ModelRecord* same = world_.models.find(name);
        if (same == nullptr) {
          for (const probe::WatchId id : added.ids) {
            watch_->remove(id);
          }
          return;
        }
        // The old ones after, so that a watch that stays is not taken down in between.
        const std::vector<probe::WatchId> before = std::exchange(same->watches, added.ids);
        unwatch(name, before);
        for (const probe::WatchId id : added.ids) {
          watchers_[id].insert(name);
        }
      });
}

void Observer::forget(ModelRecord& record) {
  unwatch(record.name, std::exchange(record.watches, {}));
}

/// Each add counts, and so each is taken back.
void Observer::unwatch(const std::string& name, const std::vector<probe::WatchId>& ids) {
  for (const probe::WatchId id : ids) {
    watch_->remove(id);
    const auto entry = watchers_.find(id);
    if (entry == watchers_.end()) continue;
    entry->second.erase(name);
    if (entry->second.empty()) watchers_.erase(entry);
  }
}

}  // namespace andiron::core
