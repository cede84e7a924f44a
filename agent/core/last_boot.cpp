// SPDX-License-Identifier: MIT
#include "agent/core/last_boot.hpp"

#include <algorithm>
#include <utility>

#include "agent/base/log.hpp"

namespace andiron::core {
namespace {

/// Shares come and go by the page, and are not worth a write to the disk.
bool same_models(const std::vector<ResidentModel>& a, const std::vector<ResidentModel>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && x.files == y.files;
  });
}

/// FNV-1a, of 64 bits.
class Fingerprint {
 public:
  void add(std::uint64_t number) noexcept {
    for (int shift = 0; shift < 64; shift += 8)
      add_byte(static_cast<unsigned char>(number >> shift));
  }
  void add(const std::string& text) noexcept {
    add(static_cast<std::uint64_t>(text.size()));
    for (const char c : text)
      add_byte(static_cast<unsigned char>(c));
  }
  std::uint64_t value() const noexcept { return value_; }

 private:
  void add_byte(unsigned char byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

bool may_be_read_unasked(const ModelRecord& record) {
  return record.configured && !record.wanted && !record.cancelled &&
         !record.settings.preload.never && record.settings.tier == Tier::page_cache;
}

}  // namespace

std::uint64_t fingerprint_of(const catalog::Resolved& source) noexcept {
  Fingerprint print;
  for (const catalog::ModelFile& file : source.files) {
    print.add(file.path);
    print.add(file.identity.ino);
    print.add(file.identity.size);
    print.add(static_cast<std::uint64_t>(file.identity.mtime_ns));
    print.add(static_cast<std::uint64_t>(file.identity.ctime_ns));
  }
  return print.value();
}

std::optional<ResidentModel> worth_remembering(const ModelRecord& record) {
  const auto resident = record.resident_bytes();
  const std::uint64_t bytes = record.bytes();
  if (!may_be_read_unasked(record) || !resident || bytes == 0 || *resident < bytes - bytes / 2) {
    return std::nullopt;
  }
  return ResidentModel{record.name, fingerprint_of(record.resolved->source), bytes, *resident};
}

bool waits_to_be_read_again(const ModelRecord& record) {
  return record.before_reboot && record.before_reboot->state == BeforeReboot::State::waiting &&
         may_be_read_unasked(record) && record.resolved &&
         fingerprint_of(record.resolved->source) == record.before_reboot->files;
}

LastBoot::LastBoot(World& world, std::string state_dir, std::optional<std::string> boot_id)
    : world_(world), state_dir_(std::move(state_dir)), boot_id_(std::move(boot_id)) {}

/// A new boot's list is marked as taken before the first page is read: an agent that is killed and
/// started again does not begin anew. Blocks.
Result<LastBoot::Found> LastBoot::take_list(const std::string& state_dir,
                                            const std::string& boot_id) {
  ResidentModels resident = TRY(load_resident(state_dir));
  const bool new_boot = !resident.models.empty() && resident.boot_id != boot_id;
  if (new_boot) {
    resident.boot_id = boot_id;
    TRY(save_resident(state_dir, resident));
  }
  return Found{std::move(resident.models), new_boot};
}

void LastBoot::begin() {
  if (!boot_id_) return;
  world_.slow.run([dir = state_dir_, id = *boot_id_] { return take_list(dir, id); },
                  [this](Result<Found> found) { take(std::move(found)); });
}

void LastBoot::take(Result<Found> found) {
  const SteadyTime now = world_.clock.now();
  known_ = true;
  save_at_ = now + kSaveEvery;
  too_late_at_ = now + kLasts;
  if (!found) {
    log::warning({.error = error_name(found.error().errc())},
                 "what was resident before a reboot is not read again: {}",
                 found.error().message());
    return;
  }
  saved_ = std::move(found->models);
  if (!found->new_boot) return;
  for (const ResidentModel& model : *saved_) {
    ModelRecord* record = world_.models.find(model.name);
    if (record == nullptr || !may_be_read_unasked(*record)) continue;
    record->before_reboot = BeforeReboot{model.files, model.resident, model.bytes};
  }
  world_.reconcile_soon();
}

void LastBoot::tick() {
  if (!known_) return;
  const SteadyTime now = world_.clock.now();
  const bool too_late = too_late_at_ && *too_late_at_ <= now;
  world_.models.each([&](ModelRecord& record) {
    if (!record.before_reboot || record.before_reboot->state != BeforeReboot::State::waiting)
      return;
    if (record.resolved && fingerprint_of(record.resolved->source) != record.before_reboot->files) {
      record.before_reboot->leave("its files are other ones now");
    } else if (too_late && record.job == 0) {
      record.before_reboot->leave("there was no room or no time for it");
    } else if (record.job == 0 && record.resolved && record.state() == ModelState::warm) {
      record.before_reboot->state = BeforeReboot::State::read;  // by somebody else
    }
  });
  if (save_at_ && *save_at_ <= now) save();
}

std::vector<ResidentModel> LastBoot::list() const {
  std::vector<ResidentModel> models;
  world_.models.each([&](const ModelRecord& record) {
    const auto& before = record.before_reboot;
    if (auto model = worth_remembering(record)) {
      models.push_back(std::move(*model));
    } else if (before && before->state == BeforeReboot::State::waiting &&
               may_be_read_unasked(record)) {
      models.push_back({record.name, before->files, before->bytes, before->resident});
    }
  });
  return models;
}

void LastBoot::save() {
  save_at_ = world_.clock.now() + kSaveEvery;
  std::vector<ResidentModel> models = list();
  if (saving_ || (saved_ && same_models(models, *saved_))) return;
  saving_ = true;
  ResidentModels now{*boot_id_, std::move(models)};
  world_.slow.run([dir = state_dir_, now] { return save_resident(dir, now); },
                  [this, now](const Result<void>& saved) {
                    saving_ = false;
                    if (saved) {
                      saved_ = now.models;
                    } else {
                      log::warning(
                          {.error = error_name(saved.error().errc())},
                          "what is resident cannot be written down, trying again later: {}",
                          saved.error().message());
                    }
                  });
}

void LastBoot::remember() {
  if (known_) at_stop_ = list();
}

Result<void> LastBoot::save_now() const {
  if (!at_stop_ || at_stop_ == saved_) return {};
  return save_resident(state_dir_, {*boot_id_, *at_stop_});
}

}  // namespace andiron::core
