// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/catalog/model.hpp"
#include "agent/core/model_table.hpp"
#include "agent/core/state_file.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// What was in memory without anybody's asking, remembered across a reboot.
///
/// A runtime that loads its models by itself leaves them in the page cache, and a reboot takes
/// them. So the state folder has a list of such models, and the first agent of a new boot has them
/// read again: once, in the background, into what memory is left, without wanting or holding them,
/// and only files that are the same ones. When their turn comes is policy::plan's to say; they make
/// way for whatever is asked for, and after kLasts it is too late for them. Thread: the control
/// loop's. Never blocks, but save_now(). On failure: says so, and goes without.
class LastBoot {
 public:
  /// What is in use so long after a start says more than what was in use before.
  static constexpr std::chrono::minutes kLasts{30};
  static constexpr std::chrono::minutes kSaveEvery{5};

  /// Without a boot id nothing is remembered.
  LastBoot(World& world, std::string state_dir, std::optional<std::string> boot_id);

  /// Once the wanted models are known: finds what to read again.
  void begin();
  /// Once a second.
  void tick();
  /// The agent stops: what is resident now is what counts, before its jobs end.
  void remember();
  /// What remember() saw; blocks.
  Result<void> save_now() const;

 private:
  struct Found {
    std::vector<ResidentModel> models;
    bool new_boot = false;
  };
  static Result<Found> take_list(const std::string& state_dir, const std::string& boot_id);
  void take(Result<Found> found);
  void save();
  std::vector<ResidentModel> list() const;

  World& world_;
  const std::string state_dir_;
  const std::optional<std::string> boot_id_;
  bool known_ = false;  // the list of the last boot was read: it may be replaced
  std::optional<std::vector<ResidentModel>> saved_;  // as the file has it; nullopt: not known
  bool saving_ = false;
  std::optional<SteadyTime> save_at_;
  std::optional<SteadyTime> too_late_at_;
  std::optional<std::vector<ResidentModel>> at_stop_;
};

/// Tells files that are the same ones from others, across a reboot. Devices are left out of it:
/// many get another number with each boot. Not against malice: who gets past it has a file read.
/// Pure.
std::uint64_t fingerprint_of(const catalog::Resolved& source) noexcept;

/// The entry for a model that is worth reading again: nobody wants it or turned it down, and at
/// least half of it is resident. Pure.
std::optional<ResidentModel> worth_remembering(const ModelRecord& record);

/// May the planner have it read again now? Pure.
bool waits_to_be_read_again(const ModelRecord& record);

}  // namespace andiron::core
