// SPDX-License-Identifier: MIT
#include "agent/core/model_table.hpp"

#include <algorithm>
#include <utility>

#include "agent/base/check.hpp"

namespace andiron::core {

Hold ModelRecord::wanted_hold() const noexcept {
  return requested_hold.value_or(settings.hold.value_or(Hold::mapped));
}

Tier ModelRecord::wanted_tier() const noexcept { return requested_tier.value_or(settings.tier); }

std::uint64_t ModelRecord::bytes() const noexcept { return resolved ? resolved->source.bytes : 0; }

std::vector<tier::FileKey> ModelRecord::keys() const {
  std::vector<tier::FileKey> keys;
  if (!resolved) return keys;
  for (const catalog::ModelFile& file : resolved->source.files) {
    keys.push_back(tier::key_of(file.identity));
  }
  return keys;
}

std::optional<std::uint64_t> ModelRecord::resident_bytes() const noexcept {
  if (!resolved || samples.size() != resolved->source.files.size()) return std::nullopt;
  std::uint64_t sum = 0;
  for (const FileSample& sample : samples) {
    if (!sample.resident) return std::nullopt;
    sum += *sample.resident;
  }
  return sum;
}

ModelState ModelRecord::state() const noexcept {
  if (job != 0) return ModelState::warming;
  if (resolve_error) {
    const Errc code = resolve_error->errc();
    return code == Errc::source_not_found || code == Errc::incomplete_shards ? ModelState::missing
                                                                             : ModelState::error;
  }
  if (stale) return ModelState::stale;
  if (resolved && (pinned_bytes > 0 || (wanted && wanted_tier() == Tier::pinned_ram))) {
    if (pinned_bytes >= resolved->source.bytes) return ModelState::warm;
    if (pinned_bytes > 0) return ModelState::partial;
    return last_error ? ModelState::error : ModelState::cold;
  }
  const auto resident = resident_bytes();
  if (resident && resolved) {
    if (*resident >= resolved->source.bytes) return ModelState::warm;
    if (*resident > 0) return ModelState::partial;
    return last_error ? ModelState::error : ModelState::cold;
  }
  // Residency is not to be known here: what the last fill said is the best there is.
  if (ever_warmed && !last_error) return ModelState::warm;
  return last_error ? ModelState::error : ModelState::cold;
}

void ModelRecord::touch(const Clock& clock) {
  last_used = clock.wall();
  last_used_steady = clock.now();
}

std::optional<std::uint64_t> ModelRecord::evicted_to_tell(std::uint64_t lost, SteadyTime now) {
  constexpr std::chrono::minutes kApart{1};
  evicted_untold += lost;
  if (eviction_told && now - *eviction_told < kApart) return std::nullopt;
  eviction_told = now;
  return std::exchange(evicted_untold, 0);
}

void ModelRecord::back_off_from(SteadyTime now) {
  using namespace std::chrono_literals;
  back_off = back_off == 0ms ? 30'000ms : std::min(back_off * 2, 1'800'000ms);
  retry_after = now + back_off;
}

ModelRecord* ModelTable::find(std::string_view name) {
  const auto it = records_.find(name);
  return it == records_.end() ? nullptr : it->second.get();
}

ModelRecord* ModelTable::find_source(std::string_view source) {
  for (auto& [name, record] : records_) {
    if (record->settings.source == source) return record.get();
  }
  return nullptr;
}

ModelRecord& ModelTable::add(config::ModelSettings settings, bool configured) {
  auto record = std::make_unique<ModelRecord>();
  record->name = settings.name;
  record->settings = std::move(settings);
  record->configured = configured;
  auto [it, inserted] = records_.emplace(record->name, std::move(record));
  CHECK(inserted);
  return *it->second;
}

Result<ModelRecord*> ModelTable::add_ad_hoc(const std::string& source,
                                            const std::vector<std::string>& also) {
  std::size_t count = 0;
  for (const auto& [name, record] : records_) {
    count += record->configured ? 0u : 1u;
  }
  if (count >= kMaxAdHoc) {
    return make_error(Errc::unavailable,
                      "too many models that are not in the configuration; drop some");
  }
  if (find(source) != nullptr) return make_error(Errc::bad_request, "a model has that name");
  config::ModelSettings settings;
  settings.name = source;
  settings.source = source;
  settings.also = also;
  return &add(std::move(settings), false);
}

void ModelTable::remove(const std::string& name) { records_.erase(name); }

}  // namespace andiron::core
