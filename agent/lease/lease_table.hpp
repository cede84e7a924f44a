// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/result.hpp"

namespace andiron::lease {

/// Names a client's connection, which is what a lease lives as long as.
using HolderId = std::uint64_t;

/// A client's right to use a model's copies.
struct Lease {
  std::uint64_t id = 0;
  HolderId holder = 0;
  uid_t uid = 0;
  pid_t pid = 0;  // that connected
  std::string model;
  std::uint64_t generation = 0;  // of the model's bytes
  std::uint64_t bytes = 0;
  SteadyTime granted;
  /// Asked to close by then; nothing is taken from who does not.
  std::optional<SteadyTime> revoked_by;
  bool overdue = false;
};

/// Who holds leases. A lease is granted once for a connection, may be revoked once, and ends with
/// its connection. Thread: the control loop's. Never blocks.
class LeaseTable {
 public:
  struct Limits {
    std::size_t all = 512;
    std::size_t per_uid = 64;  // but root's
  };
  explicit LeaseTable(Limits limits) : limits_(limits) {}

  /// Gives `lease` its number. Errors: unavailable past a limit; bad_request for a second lease of
  /// one connection.
  Result<const Lease*> grant(Lease lease);
  /// The connection is gone. nullopt where it had no lease.
  std::optional<Lease> end(HolderId holder);
  /// Those of the model that were not revoked before: they are now, to be told so.
  std::vector<Lease> revoke(const std::string& model, SteadyTime by);
  /// Those that are open past their time, each once.
  std::vector<Lease> fall_due(SteadyTime now);

  std::size_t size() const noexcept { return leases_.size(); }
  /// Of the model, revoked ones included.
  std::size_t count(const std::string& model) const;

 private:
  const Limits limits_;
  std::map<HolderId, Lease> leases_;
  std::map<uid_t, std::size_t> per_uid_;
  std::uint64_t last_ = 0;
};

}  // namespace andiron::lease
