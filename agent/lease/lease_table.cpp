// SPDX-License-Identifier: MIT
#include "agent/lease/lease_table.hpp"

#include <algorithm>
#include <utility>

namespace andiron::lease {

Result<const Lease*> LeaseTable::grant(Lease lease) {
  if (leases_.contains(lease.holder))
    return make_error(Errc::bad_request, "this connection has its lease: open another one");
  std::size_t& of_uid = per_uid_[lease.uid];
  if (leases_.size() >= limits_.all || (lease.uid != 0 && of_uid >= limits_.per_uid)) {
    return make_error(Errc::unavailable, "there are " + std::to_string(leases_.size()) +
                                             " leases, of which this user has " +
                                             std::to_string(of_uid) + ": as many as may be");
  }
  ++of_uid;
  lease.id = ++last_;
  const HolderId holder = lease.holder;
  return &leases_.emplace(holder, std::move(lease)).first->second;
}

std::optional<Lease> LeaseTable::end(HolderId holder) {
  auto node = leases_.extract(holder);
  if (node.empty()) return std::nullopt;
  const auto of_uid = per_uid_.find(node.mapped().uid);
  if (--of_uid->second == 0) per_uid_.erase(of_uid);
  return std::move(node.mapped());
}

std::vector<Lease> LeaseTable::revoke(const std::string& model, SteadyTime by) {
  std::vector<Lease> revoked;
  for (auto& [holder, lease] : leases_) {
    if (lease.model != model || lease.revoked_by) continue;
    lease.revoked_by = by;
    revoked.push_back(lease);
  }
  return revoked;
}

std::vector<Lease> LeaseTable::fall_due(SteadyTime now) {
  std::vector<Lease> due;
  for (auto& [holder, lease] : leases_) {
    if (!lease.revoked_by || *lease.revoked_by > now || lease.overdue) continue;
    lease.overdue = true;
    due.push_back(lease);
  }
  return due;
}

std::size_t LeaseTable::count(const std::string& model) const {
  return static_cast<std::size_t>(
      std::count_if(leases_.begin(), leases_.end(),
                    [&](const auto& entry) { return entry.second.model == model; }));
}

}  // namespace andiron::lease
