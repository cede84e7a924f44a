// SPDX-License-Identifier: MIT
#include "agent/core/wanted_keeper.hpp"

#include <utility>

#include "agent/base/log.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;

/// A state folder that could not be written to may have room again.
constexpr auto kPersistAgain = 10s;

}  // namespace

WantedKeeper::WantedKeeper(World& world, Warmer& warmer, std::string state_dir, Post post)
    : world_(world),
      warmer_(warmer),
      state_dir_(std::move(state_dir)),
      post_(std::move(post)),
      trouble_(world, "what is held cannot be written down, a restart will not know it",
               "what is held is written down again") {}

void WantedKeeper::load(std::function<void()> then) {
  world_.slow.run([dir = state_dir_] { return load_wanted(dir); },
                  [this, then = std::move(then)](const Result<std::vector<WantedModel>>& wanted) {
                    if (wanted) {
                      restore(*wanted);
                    } else {
                      log::warning("what was held before is not known, starting without: {}",
                                   wanted.error().message());
                    }
                    loaded_ = true;
                    if (posted_) persist();
                    then();
                  });
}

void WantedKeeper::restore(const std::vector<WantedModel>& models) {
  for (const WantedModel& model : models) {
    ModelRecord* record = world_.models.find(model.name);
    if (record == nullptr) {
      if (model.configured) continue;  // no longer in the configuration
      auto added = world_.models.add_ad_hoc(model.source, model.also);
      if (!added) continue;
      record = *added;
    }
    if (record->settings.preload.never || record->settings.source != model.source) continue;
    record->wanted = true;
    record->requested_hold = model.hold;
    record->requested_tier = model.tier;
    warmer_.refresh(*record, {});
  }
}

std::vector<WantedModel> WantedKeeper::list() const {
  std::vector<WantedModel> models;
  world_.models.each([&](const ModelRecord& record) {
    if (!record.wanted) return;
    models.push_back({record.name, record.settings.source, record.settings.also, record.configured,
                      record.requested_hold, record.requested_tier});
  });
  return models;
}

void WantedKeeper::persist_soon() {
  if (std::exchange(posted_, true) || at_stop_) return;
  post_([this] { persist(); });
}

void WantedKeeper::persist() {
  // The end of either looks again. What is not loaded yet would be lost by writing.
  if (persisting_ || at_stop_ || !loaded_) return;
  posted_ = false;
  persisting_ = true;
  world_.slow.run([dir = state_dir_, models = list()] { return save_wanted(dir, models); },
                  [this](const Result<void>& saved) {
                    persisting_ = false;
                    again_.reset();
                    if (!saved) again_ = world_.clock.now() + kPersistAgain;
                    trouble_.see(saved);
                    if (posted_) persist();
                  });
}

void WantedKeeper::tick() {
  if (again_ && *again_ <= world_.clock.now()) persist_soon();
}

void WantedKeeper::remember() {
  if (loaded_) at_stop_ = list();
}

Result<void> WantedKeeper::save_now() const {
  return at_stop_ ? save_wanted(state_dir_, *at_stop_) : Result<void>();
}

}  // namespace andiron::core
