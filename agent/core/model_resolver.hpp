// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/catalog/resolver.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// What models' sources mean now: which files. Lets go of files that are none of a model's any
/// longer, and tells of that. Thread: the control loop's. Never blocks.
class ModelResolver {
 public:
  struct Hooks {
    /// The model's files are known anew, or known not to be there.
    std::function<void(ModelRecord&)> resolved;
    /// What is filled for the model now is not what its source means.
    std::function<void(ModelRecord&, Error)> outdated;
    /// This inode is none of the model's any longer, or has other bytes.
    std::function<void(ModelRecord&, const tier::FileKey&)> forget;
  };
  ModelResolver(World& world, Hooks hooks) : world_(world), hooks_(std::move(hooks)) {}

  /// Looks anew what a model's source means, and calls `then`. What changed lets go of the old
  /// bytes. Joins a resolve that runs.
  void refresh(ModelRecord& record, std::function<void()> then);

 private:
  struct Resolution {
    Result<ResolvedModel> model;
    catalog::Places places;  // as they were looked up for it, if they were
    bool places_fresh = false;
  };
  static Resolution resolve_blocking(const config::ModelSettings& settings,
                                     const std::optional<std::vector<std::string>>& roots,
                                     const std::shared_ptr<const catalog::Places>& known,
                                     const std::map<std::string, std::string>& environment);
  void resolve(ModelRecord& record);
  void on_resolved(const std::string& name, const config::ModelSettings& asked,
                   Resolution resolution);
  void take_resolution(ModelRecord& record, ResolvedModel fresh);
  void fail_resolution(ModelRecord& record, Error error);

  World& world_;
  Hooks hooks_;
  std::map<std::string, std::vector<std::function<void()>>> after_resolve_;
  std::shared_ptr<const catalog::Places> places_;  // immutable: lent to the slow lane
  SteadyTime places_at_{};
};

}  // namespace andiron::core
