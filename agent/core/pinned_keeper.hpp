// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/core/world.hpp"
#include "agent/tier/pinned_ram.hpp"

namespace andiron::core {

/// STATE_DIR/pinned, which only root can reach, and RUNTIME_DIR/pinned, for everybody.
os::PinnedPlaces pinned_places(const std::string& state_dir, const std::string& runtime_dir);
/// For who may mount, before the agent runs in a namespace of its own.
Result<void> make_pinned_mounts(const std::string& state_dir, const std::string& runtime_dir,
                                std::uint64_t budget);

/// The pinned-ram tier's folder: made when first wanted, and kept to what the store holds. Models'
/// names in it appear when all of a model is there, and go before any of its bytes do.
/// Thread: the control loop's. Blocks for microseconds: it is a tmpfs.
class PinnedKeeper {
 public:
  using Withdrawn = std::function<void(const ModelRecord&, const std::string& why)>;

  /// What the agent before this one left is found below these.
  PinnedKeeper(World& world, std::string state_dir, std::string runtime_dir);

  /// Errors: unavailable, saying what keeps the tier from being there.
  Result<std::shared_ptr<const tier::PinnedFolder>> folder();

  /// Whether the file is one of the folder's: a copy of a copy would be held twice, and lost with
  /// the first.
  bool owns(const os::FileIdentity& identity) const;

  /// All copies of the model are held: everybody may see them now, by the names of its files.
  Result<void> publish(ModelRecord& record);
  /// The model's names, and the copies that nobody else holds, are given up. `why` is what clients
  /// with leases on them are told.
  void withdraw(ModelRecord& record, std::string_view why);
  /// What was a copy of this inode is one of old bytes: nobody is to find it any longer. Whoever
  /// has it open keeps it whole.
  void forget(ModelRecord& record, const tier::FileKey& key);
  /// A copy that nobody took, or that came back from the store: goes, unless it is one that is
  /// held.
  void discard(tier::PinnedFile file);

  /// Once a second. `busy`: copies are being made, or models are not all known yet.
  void tick(bool busy);
  /// Has the ledger know what clients still use of what was given up.
  void measure();
  /// Called when a model's copies are no longer there for others.
  void on_withdrawn(Withdrawn then) { withdrawn_ = std::move(then); }
  const os::Capability& capability() const noexcept { return capability_; }

 private:
  Result<void> open();
  void remove(tier::PinnedFile file);
  void remove_names(ModelRecord& record, std::string_view why);
  void end(tier::PinnedFile file);
  void seal_next();
  void sweep();
  void say(os::Capability::State state, std::string reason, std::string remedy);

  World& world_;
  const os::PinnedPlaces places_;
  std::shared_ptr<const tier::PinnedFolder> folder_;
  bool sealing_ = false;
  bool swept_ = false;
  Withdrawn withdrawn_;
  std::uint64_t ending_ = 0;  // bytes of copies that are being unmapped
  os::Capability capability_;
};

}  // namespace andiron::core
