// SPDX-License-Identifier: MIT
#include "agent/core/lease_keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/base/guest_source.hpp"
#include "agent/base/log.hpp"
#include "agent/lease/lease_index.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// In which whoever is asked to close a lease is to do so.
constexpr auto kRevokeDeadline = 5s;
/// For a file system to answer whether somebody may read.
constexpr auto kProofPatience = 2s;
/// An answer is given by then, also to who does not wait: a disk that does not answer is no reason
/// to say nothing.
constexpr auto kSlowAnswer = 10s;
/// Another job of the model, then ours.
constexpr unsigned kMaxLoads = 3;
/// Slow work of so many users at a time, and one piece for each: what one asks for in a flood waits
/// for itself, and everybody else's, and the rest that the slow lane does, for a moment.
constexpr std::size_t kMaxTurns = 16;

/// A stranger may send what never ends: a file of a file system of his own, a socket that lingers.
/// While that is so, no more is taken from him; and past the second bound from anybody, which is
/// far from what the agent may have open.
constexpr std::size_t kMaxUnclosed = 256;
constexpr std::size_t kMaxAllUnclosed = 1024;

/// What a stranger's descriptor leads to, if he may read by it. Where his file lies in none of the
/// file systems that models are in, it is his own, and neither asked nor closed here.
Result<os::FileIdentity> identity_of_source(UniqueFd& fd, const std::set<std::uint64_t>& devices) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0) return make_system_error(errno, "the descriptor that was handed over");
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY)
    return make_error(Errc::permission_denied, "the descriptor is not open for reading");
  const os::FileInfo cached = TRY(os::cached_stat_fd(fd.get()));
  if (!S_ISREG(cached.mode))
    return make_error(Errc::not_regular_file, "the descriptor that was handed over");
  if (!devices.contains(cached.identity.dev))
    return make_error(Errc::model_not_found, "no model has this file");
  const auto info = os::stat_fd(fd.get());
  fd.reset();
  if (!info) return info.error();
  return info->identity;
}

/// One user's files that do not answer hold up no other user's.
std::string place_of(const os::Reader& who) { return "lease of " + std::to_string(who.uid); }

}  // namespace

template <class Then>
auto LeaseKeeper::when_open(api::LeaseClientId client, const Ask& ask, Then then) {
  return [this, client, number = ask.number, then = std::move(then)](const auto&... values) {
    Ask* const same = find(client);
    if (same != nullptr && same->number == number) then(*same, values...);
  };
}

template <class Work, class Then>
void LeaseKeeper::in_turn(api::LeaseClientId client, Ask& ask, Work work, Then then) {
  ask.turn = [this, uid = ask.who.uid, place = place_of(ask.who), work = std::move(work),
              then = when_open(client, ask, std::move(then))]() mutable {
    parts_.world.slow.run_at(std::move(place), std::move(work),
                             [this, uid, then = std::move(then)](const auto& value) {
                               at_work_.erase(uid);
                               then(value);
                               next_turn();
                             });
  };
  next_turn();
}

/// The oldest first. There are no more requests than connections.
void LeaseKeeper::next_turn() {
  while (at_work_.size() < kMaxTurns) {
    Ask* oldest = nullptr;
    for (auto& [client, ask] : asks_) {
      if (!ask.turn || at_work_.contains(ask.who.uid)) continue;
      if (oldest == nullptr || ask.number < oldest->number) oldest = &ask;
    }
    if (oldest == nullptr) return;
    at_work_.insert(oldest->who.uid);
    oldest->source.reset();  // the work has it
    std::exchange(oldest->turn, nullptr)();
  }
}

LeaseKeeper::Ask* LeaseKeeper::find(api::LeaseClientId client) {
  const auto place = asks_.find(client);
  return place == asks_.end() ? nullptr : &place->second;
}

// -- Asking --------------------------------------------------------------------------------------

void LeaseKeeper::on_request(api::LeaseClientId client, os::Reader who, api::LeaseRequest request) {
  Ask& ask = asks_[client];
  ask = Ask{};
  ask.number = ++last_ask_;
  ask.who = std::move(who);
  ask.model = std::move(request.model);
  if (request.source) ask.source = guarded(ask.who.uid, std::move(request.source));
  ask.may_wait = request.wait > 0ms;
  ask.answer_by =
      parts_.world.clock.now() + std::max<std::chrono::milliseconds>(request.wait, kSlowAnswer);
  if (request.tier != Tier::pinned_ram) {
    return refuse(client,
                  make_error(Errc::unavailable, "leases are on pinned-ram, in this version"));
  }
  if (ask.source) return find_source(client, ask);
  advance(client);
}

void LeaseKeeper::find_source(api::LeaseClientId client, Ask& ask) {
  std::set<std::uint64_t> devices;
  parts_.world.models.each([&](const ModelRecord& record) {
    for (const tier::FileKey& key : record.keys())
      devices.insert(key.dev);
  });
  in_turn(
      client, ask,
      [source = ask.source, devices = std::move(devices)] {
        return identity_of_source(*source, devices);
      },
      [this, client](const Ask&, const Result<os::FileIdentity>& found) {
        take_source(client, found);
      });
}

/// Which model has that file: one that is there already before others.
void LeaseKeeper::take_source(api::LeaseClientId client, const Result<os::FileIdentity>& found) {
  if (!found) return refuse(client, found.error());
  const tier::FileKey key = tier::key_of(*found);
  const ModelRecord* best = nullptr;
  parts_.world.models.each([&](const ModelRecord& record) {
    const std::vector<tier::FileKey> keys = record.keys();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) return;
    if (best == nullptr || (!is_there(*best) && is_there(record))) best = &record;
  });
  if (best == nullptr)
    return refuse(client, make_error(Errc::model_not_found, "no model has this file"));
  Ask& ask = asks_.at(client);
  ask.model = best->name;
  ask.file = *found;
  advance(client);
}

void LeaseKeeper::advance(api::LeaseClientId client) {
  Ask* const ask = find(client);
  if (ask == nullptr) return;
  ModelRecord* const record = parts_.world.models.find(ask->model);
  if (record == nullptr) return refuse(client, make_error(Errc::model_not_found, ask->model));
  if (!record->resolved) {
    if (std::exchange(ask->resolved, true))
      return refuse(client, record->resolve_error.value_or(
                                make_error(Errc::unavailable, ask->model + ": not resolved yet")));
    return parts_.warmer.refresh(
        *record, when_open(client, *ask, [this, client](Ask&) { advance(client); }));
  }
  if (!is_proved(*ask, *record)) return prove(client, *ask, *record);
  if (!is_there(*record)) return load(client, *ask, *record);
  if (files_of(*ask, *record).empty()) {
    // It is not what the model was made from.
    record->recheck_at = parts_.world.clock.now();
    return refuse(client, make_error(Errc::stale, ask->model + ": the file has changed"));
  }
  make_index(client, *ask, *record);
}

/// For the files that the model has now, which are not always those that it had when that was
/// tried. An open file is compared with them when it is granted.
bool LeaseKeeper::is_proved(const Ask& ask, const ModelRecord& record) const {
  const std::vector<catalog::ModelFile>& files = record.resolved->source.files;
  return ask.file || std::equal(ask.proved.begin(), ask.proved.end(), files.begin(), files.end(),
                                [](const os::FileIdentity& proved, const catalog::ModelFile& file) {
                                  return proved == file.identity;
                                });
}

/// All of the model's files: it is granted as a whole.
void LeaseKeeper::prove(api::LeaseClientId client, Ask& ask, ModelRecord& record) {
  std::vector<os::FileToRead> files;
  std::vector<os::FileIdentity> identities;
  for (const catalog::ModelFile& file : record.resolved->source.files) {
    if (split_guest_path(file.path)) {
      return refuse(client, make_error(Errc::permission_denied,
                                       "a model in a guest is leased by its open file alone"));
    }
    files.push_back({file.path, file.identity});
    identities.push_back(file.identity);
  }
  in_turn(
      client, ask,
      [who = ask.who, files = std::move(files)] {
        return os::check_may_read(who, files, kProofPatience);
      },
      [this, client, identities = std::move(identities)](Ask& same, const Result<void>& may) {
        ModelRecord* const model = parts_.world.models.find(same.model);
        if (!may && may.error().errc() == Errc::stale && model != nullptr)
          model->recheck_at = parts_.world.clock.now();
        if (!may) return refuse(client, may.error());
        same.proved = identities;
        advance(client);
      });
}

/// As a request to warm it in pinned-ram does, which the lease is.
void LeaseKeeper::load(api::LeaseClientId client, Ask& ask, ModelRecord& record) {
  const bool again = ask.loads > 0 && record.job == 0;
  if (!ask.may_wait || again || ++ask.loads > kMaxLoads) {
    const Error why = make_error(Errc::unavailable, record.name + ": not in pinned-ram");
    return refuse(client, record.last_error.value_or(record.resolve_error.value_or(why)));
  }
  const auto go_on = when_open(client, ask, [this, client](Ask&) { advance(client); });
  const Job* const running = parts_.warmer.jobs().find(record.job);
  const bool other = running != nullptr && running->tier != Tier::pinned_ram;
  if (other || !parts_.warmer.make_way(record)) return parts_.warmer.after_job(record, go_on);
  const auto job = parts_.warmer.warm(record, std::nullopt, true, Tier::pinned_ram);
  if (!job) return refuse(client, job.error());
  parts_.warmer.after_job(record, go_on);
}

bool LeaseKeeper::is_there(const ModelRecord& record) const {
  return !record.stale && !record.pinned_path.empty() && record.resolved &&
         record.pinned_bytes == record.bytes();
}

/// Empty where the client's file is none of them, by its identity.
std::vector<const catalog::ModelFile*> LeaseKeeper::files_of(const Ask& ask,
                                                             const ModelRecord& record) const {
  std::vector<const catalog::ModelFile*> files;
  for (const catalog::ModelFile& file : record.resolved->source.files) {
    if (!ask.file || *ask.file == file.identity) files.push_back(&file);
  }
  return files;
}

// -- Granting ------------------------------------------------------------------------------------

void LeaseKeeper::make_index(api::LeaseClientId client, Ask& ask, const ModelRecord& record) {
  const auto files = files_of(ask, record);
  const bool whole = files.size() == record.resolved->source.files.size();
  const auto known = indexes_.find(record.name);
  if (whole && known != indexes_.end() && known->second.generation == record.generation)
    return grant(client, ask, record, *known->second.memfd);

  auto folder = parts_.pinned.folder();
  if (!folder) return refuse(client, folder.error());
  auto request = std::make_shared<lease::IndexRequest>();
  request->model = record.name;
  request->generation = record.generation;
  for (const catalog::ModelFile* file : files) {
    auto copy = (*folder)->open_copy(file->identity);
    if (!copy) return refuse(client, copy.error());
    request->files.push_back({file->name, file->identity, file->companion});
    request->copies.push_back(std::move(*copy));
  }
  in_turn(
      client, ask,
      [request] {
        Result<UniqueFd> made = lease::make_index(*request);
        request->copies.clear();
        if (!made) return Result<std::shared_ptr<const UniqueFd>>(made.error());
        return Result<std::shared_ptr<const UniqueFd>>(
            std::make_shared<const UniqueFd>(std::move(*made)));
      },
      [this, client, whole, generation = record.generation](
          Ask& same, const Result<std::shared_ptr<const UniqueFd>>& made) {
        if (!made) return refuse(client, made.error());
        const ModelRecord* const model = parts_.world.models.find(same.model);
        if (model == nullptr || !is_there(*model) || model->generation != generation)
          return advance(client);
        if (whole) indexes_[same.model] = {generation, *made};
        grant(client, same, *model, **made);
      });
}

void LeaseKeeper::grant(api::LeaseClientId client, const Ask& ask, const ModelRecord& record,
                        const UniqueFd& index) {
  Result<api::LeaseGrant> grant = collect(ask, record, index);
  if (!grant) return refuse(client, grant.error());
  lease::Lease lease;
  lease.holder = client;
  lease.uid = ask.who.uid;
  lease.pid = ask.who.pid;
  lease.model = record.name;
  lease.generation = record.generation;
  lease.bytes = grant->bytes;
  const auto granted = parts_.world.leases.grant(std::move(lease));
  if (!granted) return refuse(client, granted.error());
  grant->lease = (*granted)->id;
  note(probe::EventType::lease_granted, **granted);
  ModelRecord* const used = parts_.world.models.find(record.name);
  used->touch(parts_.world.clock);
  asks_.erase(client);
  server_->grant(client, std::move(*grant));
}

Result<api::LeaseGrant> LeaseKeeper::collect(const Ask& ask, const ModelRecord& record,
                                             const UniqueFd& index) {
  const auto folder = TRY(parts_.pinned.folder());
  api::LeaseGrant grant;
  grant.model = record.name;
  grant.generation = record.generation;
  grant.fds.push_back(TRY(lease::open_index(index)));
  for (const catalog::ModelFile* file : files_of(ask, record)) {
    grant.bytes += file->identity.size;
    grant.fds.push_back(TRY(folder->open_readable(record.name, file->name, file->identity)));
  }
  return grant;
}

// -- Ending --------------------------------------------------------------------------------------

void LeaseKeeper::withdrawn(const ModelRecord& record, const std::string& why) {
  indexes_.erase(record.name);
  const SteadyTime by = parts_.world.clock.now() + kRevokeDeadline;
  for (const lease::Lease& lease : parts_.world.leases.revoke(record.name, by)) {
    note(probe::EventType::lease_revoked, lease, why);
    if (server_ != nullptr) server_->revoke(lease.holder, why, kRevokeDeadline);
  }
}

void LeaseKeeper::on_gone(api::LeaseClientId client) {
  asks_.erase(client);
  if (const auto lease = parts_.world.leases.end(client))
    note(probe::EventType::lease_ended, *lease);
}

void LeaseKeeper::tick() {
  std::vector<std::pair<api::LeaseClientId, std::string>> late;
  for (const auto& [client, ask] : asks_) {
    if (ask.answer_by <= parts_.world.clock.now()) late.emplace_back(client, ask.model);
  }
  for (const auto& [client, model] : late)
    refuse(client, make_error(Errc::timeout, model + ": not in pinned-ram yet"));
  for (const lease::Lease& lease : parts_.world.leases.fall_due(parts_.world.clock.now())) {
    log::warning({.model = lease.model, .event = to_string(probe::EventType::lease_revoked)},
                 "{}: process {} keeps the lease that it was asked to close; its {} stay in memory",
                 lease.model, lease.pid, format_bytes(lease.bytes));
  }
}

void LeaseKeeper::refuse(api::LeaseClientId client, const Error& error) {
  asks_.erase(client);
  server_->refuse(client, error);
}

std::shared_ptr<UniqueFd> LeaseKeeper::guarded(uid_t uid, UniqueFd source) {
  return {new UniqueFd(std::move(source)),
          [this, uid, here = std::weak_ptr<const bool>(here_)](UniqueFd* left) {
            const std::unique_ptr<UniqueFd> owned(left);
            if (!*owned || here.expired()) return;
            std::vector<UniqueFd> fds;
            fds.push_back(std::move(*owned));
            discard(uid, std::move(fds));
          }};
}

void LeaseKeeper::discard(uid_t uid, std::vector<UniqueFd> fds) {
  const std::size_t count = fds.size();
  const bool was_behind = is_behind(std::nullopt);
  unclosed_[uid] += count;
  all_unclosed_ += count;
  if (!was_behind && is_behind(std::nullopt)) {
    log::warning(
        "lease socket: {} descriptors that clients sent, {} of them user {}'s, do not close; new "
        "clients wait until that changes",
        all_unclosed_, unclosed_[uid], uid);
  }
  parts_.world.slow.run_at(
      "descriptors of strangers",
      [fds = std::move(fds)]() mutable {
        fds.clear();
        return true;
      },
      [this, uid, count](bool) {
        all_unclosed_ -= count;
        const auto of_uid = unclosed_.find(uid);
        if ((of_uid->second -= count) == 0) unclosed_.erase(of_uid);
      });
}

bool LeaseKeeper::is_behind(std::optional<uid_t> uid) const {
  if (all_unclosed_ >= kMaxAllUnclosed) return true;
  const auto of_uid = uid ? unclosed_.find(*uid) : unclosed_.end();
  return of_uid != unclosed_.end() && of_uid->second >= kMaxUnclosed;
}

void LeaseKeeper::note(probe::EventType type, const lease::Lease& lease, std::string detail) {
  probe::Event event;
  event.time = parts_.world.clock.wall();
  event.type = type;
  event.model = lease.model;
  event.bytes = lease.bytes;
  event.by = probe::Culprit{lease.pid, {}, {}, {}};
  event.detail = detail.empty() ? fmt::format("lease {}", lease.id)
                                : fmt::format("lease {}: {}", lease.id, detail);
  parts_.world.events.append(std::move(event));
}

}  // namespace andiron::core
