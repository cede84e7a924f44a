// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/catalog/model.hpp"
#include "agent/config/settings.hpp"
#include "agent/os/device.hpp"
#include "agent/probe/file_watch.hpp"
#include "agent/tier/page_cache_store.hpp"

namespace andiron::core {

/// What a file's last residency walk found.
struct FileSample {
  std::optional<std::uint64_t> resident;  // bytes; nullopt is unknown
  std::string unknown;                    // why
};

/// Files of one model, as resolved: the device of files[i] is devices[device_of[i]].
struct ResolvedModel {
  catalog::Resolved source;
  std::vector<os::DeviceTraits> devices;
  std::vector<std::uint32_t> device_of;
};

struct LastLoad {
  tier::StageTimes stages;
  std::uint64_t bytes = 0;  // that were missing
  std::chrono::nanoseconds total{0};
  WallTime at;
};

/// What became of a model that was resident before a reboot without anybody's asking: LastBoot.
struct BeforeReboot {
  enum class State { waiting, read, left };
  std::uint64_t files = 0;     // fingerprint_of() them
  std::uint64_t resident = 0;  // bytes, of
  std::uint64_t bytes = 0;
  State state = State::waiting;
  std::string why = {};  // it was left

  void leave(std::string reason) {
    state = State::left;
    why = std::move(reason);
  }
};

/// One model as the agent knows it. Thread: the control loop's.
struct ModelRecord {
  std::string name;
  config::ModelSettings settings;
  bool configured = false;  // else it came over the socket

  bool wanted = false;
  std::optional<Hold> requested_hold;  // by the last warm request, before the settings' own
  std::optional<Tier> requested_tier;  // the same
  bool ever_warmed = false;            // since it was last wanted
  bool cancelled = false;              // its last warm was cancelled by somebody
  bool giving_back = false;            // its pages, to be warmed again after that

  std::optional<ResolvedModel> resolved;
  std::optional<Error> resolve_error;
  std::optional<SteadyTime> resolved_at;
  bool resolving = false;
  bool stale = false;  // the files changed, and the new content is not warm yet

  std::vector<FileSample> samples;  // as many as files, or none
  std::optional<SteadyTime> sampled_at;
  bool sampling = false;

  std::optional<BeforeReboot> before_reboot;  // until somebody asks for it
  std::uint64_t pinned_bytes = 0;             // of its files, that have copies in pinned-ram
  std::string pinned_path;       // of its one file there, or of the folder of all; empty: not yet
  std::uint64_t generation = 0;  // of its copies: counts the times that they were published anew

  std::uint64_t job = 0;  // 0 is none
  std::uint64_t evictions = 0;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t evicted_untold = 0;         // bytes that the log does not tell of yet
  std::optional<SteadyTime> eviction_told;  // in the log, last
  std::optional<WallTime> last_used;
  std::optional<SteadyTime> last_used_steady;
  std::optional<LastLoad> last_load;
  std::optional<Error> last_error;
  std::optional<std::string> lock_limit;  // why its hold is not whole
  std::vector<std::string> notes;         // of its last fill
  std::string plan_note;                  // what the planner said of it last

  std::optional<SteadyTime> forget_at;  // where it is not configured and not wanted
  std::optional<SteadyTime> retry_after;
  std::chrono::milliseconds back_off{0};

  std::vector<probe::WatchId> watches;
  std::optional<SteadyTime> recheck_at;  // something changed: look again when it has settled
  SteadyTime recheck_asked{};            // when that wait began

  Hold wanted_hold() const noexcept;
  Tier wanted_tier() const noexcept;
  std::uint64_t bytes() const noexcept;  // 0 while it is not resolved
  std::vector<tier::FileKey> keys() const;
  /// nullopt where a file's residency is unknown or was not looked at yet.
  std::optional<std::uint64_t> resident_bytes() const noexcept;
  ModelState state() const noexcept;
  void touch(const Clock& clock);  // used now
  /// So many bytes were evicted: how many the log is to tell of now, with those before that it has
  /// not told of. One that loses pages all day is an event every two seconds, and a line a minute.
  std::optional<std::uint64_t> evicted_to_tell(std::uint64_t bytes, SteadyTime now);
  /// Doubles the back-off, from 30 s to 30 min, and starts it.
  void back_off_from(SteadyTime now);
};

/// All models, by name. Records keep their address while they exist.
class ModelTable {
 public:
  /// Models that are not configured: bounded, since anybody who may use the socket makes them.
  static constexpr std::size_t kMaxAdHoc = 256;

  ModelRecord* find(std::string_view name);
  /// The configured or ad-hoc model of that very source.
  ModelRecord* find_source(std::string_view source);
  ModelRecord& add(config::ModelSettings settings, bool configured);
  /// A model named after its source. Errors: unavailable past kMaxAdHoc.
  Result<ModelRecord*> add_ad_hoc(const std::string& source, const std::vector<std::string>& also);
  void remove(const std::string& name);
  std::size_t size() const noexcept { return records_.size(); }

  template <class Visit>
  void each(Visit visit) {
    for (auto& [name, record] : records_)
      visit(*record);
  }
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [name, record] : records_)
      visit(std::as_const(*record));
  }

 private:
  std::map<std::string, std::unique_ptr<ModelRecord>, std::less<>> records_;
};

}  // namespace andiron::core
