// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/api/server.hpp"
#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/stream/transfer.hpp"
#include "agent/tier/page_cache_store.hpp"

namespace andiron::core {

enum class JobState { resolving, running, done, failed, cancelled };
std::string_view to_string(JobState state) noexcept;

/// Somebody who waits for a job: with a stream of progress lines, or for one answer.
struct Waiter {
  api::ConnectionId connection = 0;
  bool stream = false;
  bool joined = false;  // somebody else had started the job
};

/// The warming of one model, from resolving to commit. Thread: the control loop's.
struct Job {
  std::uint64_t id = 0;
  std::string model;
  JobState state = JobState::resolving;
  Tier tier = Tier::page_cache;
  Hold hold = Hold::mapped;
  bool requested = false;      // by somebody, not by the planner
  bool unasked = false;        // nobody wants the model either: it makes way for any other
  bool wanted_before = false;  // what the model goes back to when the request fails
  WallTime started;
  SteadyTime started_steady;
  std::shared_ptr<stream::TransferControl> control;

  std::size_t fills_left = 0;  // lanes that have not reported yet
  std::map<tier::FileKey, tier::Reservation> reservations;
  tier::StageTimes stages;  // sums over the lanes
  std::uint64_t bytes_read = 0;
  std::vector<std::string> notes;
  std::optional<Error> error;
  std::optional<std::string> lock_limit;
  std::vector<Waiter> waiters;

  bool ended() const noexcept { return state > JobState::running; }
};

/// Jobs by id: those that run, and the last kKept that ended.
class JobTable {
 public:
  static constexpr std::size_t kKept = 64;

  /// A new one; the oldest that ended are forgotten past kKept.
  Job& add();
  Job* find(std::uint64_t id);
  const std::map<std::uint64_t, std::unique_ptr<Job>>& all() const noexcept { return jobs_; }
  std::size_t running() const;

 private:
  void prune();

  std::map<std::uint64_t, std::unique_ptr<Job>> jobs_;
  std::uint64_t next_ = 1;
};

}  // namespace andiron::core
