// SPDX-License-Identifier: MIT
#include "agent/core/pinned_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/base/log.hpp"
#include "agent/core/runtime_dir.hpp"

namespace andiron::core {
namespace {

constexpr const char* kName = "pinned-ram";
/// Beside the copies, which the budget bounds: manifests, names, and the rest of a huge page each.
constexpr std::uint64_t kRoom = 256 * kMiB;
constexpr const char* kRemedy =
    "run andirond as the unit andirond.service, whose start makes the mounts, or as root with "
    "CAP_SYS_ADMIN";

}  // namespace

os::PinnedPlaces pinned_places(const std::string& state_dir, const std::string& runtime_dir) {
  return {state_dir + "/pinned", runtime_dir + "/pinned"};
}

Result<void> make_pinned_mounts(const std::string& state_dir, const std::string& runtime_dir,
                                std::uint64_t budget) {
  TRY(make_folder(state_dir, 0700));
  const os::PinnedPlaces places = pinned_places(state_dir, runtime_dir);
  TRY(make_folder(places.writable, 0755));
  TRY(make_folder(places.readable, 0755));
  static_cast<void>(TRY(os::open_pinned_mount(places, budget + kRoom)));
  return {};
}

PinnedKeeper::PinnedKeeper(World& world, std::string state_dir, std::string runtime_dir)
    : world_(world), places_(pinned_places(state_dir, runtime_dir)) {
  say(os::Capability::State::on, "not in use", "");
}

Result<std::shared_ptr<const tier::PinnedFolder>> PinnedKeeper::folder() {
  if (!folder_) {
    if (Result<void> opened = open(); !opened) {
      say(os::Capability::State::off, opened.error().message(), kRemedy);
      return make_error(Errc::unavailable,
                        "pinned-ram is not to be had here: " + opened.error().message());
    }
  }
  return folder_;
}

Result<void> PinnedKeeper::open() {
  TRY(make_folder(places_.writable, 0755));
  TRY(make_folder(places_.readable, 0755));
  os::PinnedMount mount = TRY(os::open_pinned_mount(places_, world_.ledger.budget() + kRoom));
  std::string notes;
  for (const std::string& note : mount.notes)
    notes += (notes.empty() ? "" : "; ") + note;
  const bool whole = mount.huge && mount.noswap;
  folder_ = std::make_shared<const tier::PinnedFolder>(
      TRY(tier::PinnedFolder::open(std::move(mount), places_.readable)));
  say(whole ? os::Capability::State::on : os::Capability::State::degraded,
      whole ? "copies in huge pages, below " + places_.readable : notes, "");
  return {};
}

bool PinnedKeeper::owns(const os::FileIdentity& identity) const {
  return folder_ && folder_->device() == identity.dev;
}

Result<void> PinnedKeeper::publish(ModelRecord& record) {
  const std::vector<catalog::ModelFile>& files = record.resolved->source.files;
  std::vector<std::pair<std::string, os::FileIdentity>> names;
  for (const catalog::ModelFile& file : files)
    names.emplace_back(file.name, file.identity);
  const auto open = TRY(folder());
  TRY(open->set_names(record.name, names));
  if (record.pinned_path.empty()) ++record.generation;
  record.pinned_path = folder_->path_of(record.name);
  // What a runtime wants to be given: a file, of a set of shards the first, else the folder.
  const auto weights = std::count_if(
      files.begin(), files.end(), [](const catalog::ModelFile& file) { return !file.companion; });
  const std::string& first = files.front().name;
  if (weights == 1 || first.ends_with(".gguf")) record.pinned_path += "/" + first;
  return {};
}

void PinnedKeeper::withdraw(ModelRecord& record, std::string_view why) {
  if (!folder_) return;
  remove_names(record, why);
  for (tier::PinnedFile& file : world_.pinned.release(record.name))
    remove(std::move(file));
  record.pinned_bytes = 0;
}

void PinnedKeeper::forget(ModelRecord& record, const tier::FileKey& key) {
  std::optional<tier::PinnedFile> file = world_.pinned.forget(key);
  if (!file) return;
  remove_names(record, to_string(probe::EventType::model_changed));
  remove(std::move(*file));
}

void PinnedKeeper::remove_names(ModelRecord& record, std::string_view why) {
  const bool was_there = !std::exchange(record.pinned_path, {}).empty();
  if (was_there && withdrawn_) withdrawn_(record, std::string(why));
  if (const auto gone = folder_->remove_names(record.name); !gone) {
    log::warning("{}: its names in pinned-ram stay: {}", record.name, gone.error().message());
  }
}

void PinnedKeeper::remove(tier::PinnedFile file) {
  if (const auto gone = folder_->remove(file.identity); !gone) {
    log::warning("{}: its copy stays: {}", file.path, gone.error().message());
  }
  end(std::move(file));
}

void PinnedKeeper::discard(tier::PinnedFile file) {
  const tier::PinnedFile* held = world_.pinned.find(tier::key_of(file.identity));
  if (held != nullptr && held->identity == file.identity) return end(std::move(file));
  remove(std::move(file));
}

/// Unmapping walks its pages.
void PinnedKeeper::end(tier::PinnedFile file) {
  const std::uint64_t bytes = file.identity.size;
  ending_ += bytes;
  world_.slow.run(
      [file = std::move(file)]() mutable {
        file.mapping.reset();
        file.fd.reset();
        return true;
      },
      [this, bytes](bool) {
        ending_ -= bytes;
        measure();
      });
}

/// The kernel keeps a file that has no name as long as somebody has it open or mapped: a client
/// whose lease has ended, a runtime that read it by path, a child that either of them left.
void PinnedKeeper::measure() {
  if (!folder_) return;
  const auto nameless = folder_->nameless_bytes();
  if (!nameless) return;
  world_.ledger.set_draining(*nameless > ending_ ? *nameless - ending_ : 0);
}

void PinnedKeeper::tick(bool busy) {
  if (!folder_ && !swept_ && os::is_mounted(places_.readable)) {
    // What another agent left is taken up even where nothing wants the tier any longer: to go.
    static_cast<void>(folder());
  }
  // Another model's look at a file that both have may have ended it.
  world_.models.each([this](ModelRecord& record) {
    record.pinned_bytes = world_.pinned.bytes_of(record.name, record.keys());
  });
  measure();
  if (!folder_ || busy) return;
  if (!swept_) sweep();
  seal_next();
}

/// Once, when all that is to be held has been adopted: the rest is nobody's.
void PinnedKeeper::sweep() {
  swept_ = true;
  auto removed = folder_->sweep(world_.pinned.copy_names(), world_.pinned.models());
  if (!removed) {
    log::warning("copies that nobody wants stay in memory: {}", removed.error().message());
    return;
  }
  if (removed->empty()) return;
  log::info("{} copies in pinned-ram that nobody wants any longer are given up", removed->size());
  world_.slow.run([files = std::move(*removed)]() mutable { files.clear(); });
}

/// Checksums are made after the fact, one copy at a time: no load waits for them.
void PinnedKeeper::seal_next() {
  if (sealing_) return;
  const tier::PinnedFile* next = world_.pinned.unsealed();
  if (next == nullptr) return;
  sealing_ = true;
  const os::FileIdentity identity = next->identity;
  world_.slow.run([folder = folder_, source = next->path,
                   identity] { return tier::seal(*folder, source, identity); },
                  [this, source = next->path, identity](const Result<void>& sealed) {
                    sealing_ = false;
                    // Marked in any case: what cannot be sealed is adopted without, and not tried
                    // for ever.
                    world_.pinned.sealed(identity);
                    if (!sealed)
                      log::debug("{}: no checksums: {}", source, sealed.error().message());
                  });
}

void PinnedKeeper::say(os::Capability::State state, std::string reason, std::string remedy) {
  const bool news = capability_.reason != reason;
  capability_ = {kName, state, std::move(reason), std::move(remedy)};
  if (news) world_.set_capability(capability_);
}

}  // namespace andiron::core
