// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/api/lease_server.hpp"
#include "agent/core/pinned_keeper.hpp"
#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// Grants leases: finds the model, has its files proved to be the client's to read, waits for its
/// copies, and hands them over. What is withdrawn is revoked.
/// Thread: the control loop's. Never blocks.
class LeaseKeeper {
 public:
  struct Parts {
    World& world;
    Warmer& warmer;
    PinnedKeeper& pinned;
  };
  explicit LeaseKeeper(Parts parts) : parts_(std::move(parts)) {}

  void serve_on(api::LeaseServer& server) { server_ = &server; }
  void on_request(api::LeaseClientId client, os::Reader who, api::LeaseRequest request);
  void on_gone(api::LeaseClientId client);
  /// Closes what a stranger sent: that may block.
  void discard(uid_t uid, std::vector<UniqueFd> fds);
  /// So much is still to be closed that no more is to be taken: of this user, or of all.
  bool is_behind(std::optional<uid_t> uid) const;

  /// The model's copies are no longer there for others: who has a lease is asked to close it.
  void withdrawn(const ModelRecord& record, const std::string& why);
  /// Once a second: answers who has waited long enough, and says who does not close.
  void tick();

 private:
  /// A request that is not answered yet.
  struct Ask {
    std::uint64_t number = 0;
    os::Reader who;
    std::string model;
    SteadyTime answer_by;
    std::shared_ptr<UniqueFd> source;      // a stranger's, until it is looked at
    std::optional<os::FileIdentity> file;  // the one that the client has open, and wants
    bool may_wait = false;
    std::vector<os::FileIdentity> proved;  // the model's files that he may read, as they were then
    bool resolved = false;                 // asked for once
    unsigned loads = 0;                    // waited for
    std::function<void()> turn;            // slow work that is due when the user's turn comes
  };
  /// What a lease's index was made for. A lease on one file of several has its own.
  struct Index {
    std::uint64_t generation = 0;
    std::shared_ptr<const UniqueFd> memfd;
  };

  void find_source(api::LeaseClientId client, Ask& ask);
  void take_source(api::LeaseClientId client, const Result<os::FileIdentity>& found);
  /// Does what is next for this request; called again when that is done.
  void advance(api::LeaseClientId client);
  bool is_proved(const Ask& ask, const ModelRecord& record) const;
  void prove(api::LeaseClientId client, Ask& ask, ModelRecord& record);
  void load(api::LeaseClientId client, Ask& ask, ModelRecord& record);
  void make_index(api::LeaseClientId client, Ask& ask, const ModelRecord& record);
  void grant(api::LeaseClientId client, const Ask& ask, const ModelRecord& record,
             const UniqueFd& index);
  Result<api::LeaseGrant> collect(const Ask& ask, const ModelRecord& record, const UniqueFd& index);
  bool is_there(const ModelRecord& record) const;
  std::vector<const catalog::ModelFile*> files_of(const Ask& ask, const ModelRecord& record) const;
  Ask* find(api::LeaseClientId client);
  /// As one to call back: does nothing where that very request is answered by then.
  template <class Then>
  auto when_open(api::LeaseClientId client, const Ask& ask, Then then);
  /// Slow work for a request, when it is its user's turn; then(ask, value) on the loop, as by
  /// when_open(). What waits for its turn goes with its request.
  template <class Work, class Then>
  void in_turn(api::LeaseClientId client, Ask& ask, Work work, Then then);
  void next_turn();
  /// A stranger's descriptor that is discarded, if open, by whoever has it last.
  std::shared_ptr<UniqueFd> guarded(uid_t uid, UniqueFd source);
  void refuse(api::LeaseClientId client, const Error& error);
  void note(probe::EventType type, const lease::Lease& lease, std::string detail = {});

  Parts parts_;
  api::LeaseServer* server_ = nullptr;
  std::map<api::LeaseClientId, Ask> asks_;
  std::uint64_t last_ask_ = 0;
  std::set<uid_t> at_work_;                // whose turn it is
  std::map<uid_t, std::size_t> unclosed_;  // descriptors that were discarded
  std::size_t all_unclosed_ = 0;
  std::shared_ptr<const bool> here_ = std::make_shared<const bool>(true);  // for what outlives this
  std::map<std::string, Index> indexes_;  // of whole models, by name
};

}  // namespace andiron::core
