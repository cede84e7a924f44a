// SPDX-License-Identifier: MIT
#include "agent/policy/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace andiron::policy {
namespace {

/// Names take so much of a reason, and one more: it is a line in a terminal.
constexpr std::size_t kNames = 80;

/// What is claimed so far, each file once.
class Claims {
 public:
  Claims(std::uint64_t budget, std::uint64_t memory) : budget_(budget), memory_(memory) {}

  std::uint64_t extra(const ModelFacts& model) const {
    std::uint64_t sum = 0;
    std::unordered_set<std::uint64_t> own;
    for (const FilePart& part : model.files) {
      if (!files_.contains(part.key) && own.insert(part.key).second) sum += part.bytes;
    }
    return sum;
  }
  bool fits_budget(std::uint64_t bytes) const {
    return bytes <= budget_ - std::min(used_, budget_);
  }
  bool fits_memory(std::uint64_t bytes) const {
    return bytes <= memory_ - std::min(used_, memory_);
  }
  std::uint64_t left() const {
    return std::min(budget_ - std::min(used_, budget_), memory_ - std::min(used_, memory_));
  }
  /// Who would have to go so that so much more fits, the last first; or what there is in all.
  std::string way_out(std::uint64_t extra, bool firm) const {
    const std::uint64_t all = firm ? std::min(budget_, memory_) : memory_;
    if (extra > all) return fmt::format("; {} is all that may be held", format_bytes(all));
    std::string names;
    std::uint64_t used = used_;
    for (auto each = claimed_.rbegin(); used > all - extra && each != claimed_.rend(); ++each) {
      if (each->second == 0) continue;
      if (names.size() > kNames) return "; several models would have to go";
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", *each->first,
                           format_bytes(each->second));
      used -= each->second;
    }
    return fmt::format("; for it to fit, drop {}", names);
  }
  void claim(const ModelFacts& model) {
    const std::uint64_t bytes = extra(model);
    used_ += bytes;
    claimed_.emplace_back(&model.name, bytes);
    for (const FilePart& part : model.files)
      files_.insert(part.key);
  }

 private:
  std::uint64_t budget_;
  std::uint64_t memory_;
  std::uint64_t used_ = 0;
  std::unordered_set<std::uint64_t> files_;
  std::vector<std::pair<const std::string*, std::uint64_t>> claimed_;
};

/// `available` counts mapped pages of ours as free already, and locked ones not: so this is what
/// could be held in all while the headroom stays free.
std::uint64_t memory_for_holds(const Facts& facts) {
  const std::uint64_t all = facts.memory_available + facts.locked;
  return all > facts.headroom ? all - facts.headroom : 0;
}

bool expired(const ModelFacts& model, SteadyTime now) {
  return model.keep_alive.kind == config::KeepAlive::Kind::fixed && !model.requested &&
         !model.busy && model.last_used && now - *model.last_used > model.keep_alive.duration;
}

bool backing_off(const ModelFacts& model, SteadyTime now) {
  return !model.requested && model.retry_after && *model.retry_after > now;
}

std::string why_warm(const ModelFacts& model, Hold target) {
  if (model.requested) return "asked for";
  if (model.state == ModelState::warm) {
    return fmt::format("it is resident, and to be held as {}", to_string(target));
  }
  if (model.ever_warmed) return "pages of it were evicted, and there is room to bring them back";
  return "it is to be kept warm, and is not";
}

class Planner {
 public:
  Planner(const Facts& facts, SteadyTime now)
      : facts_(facts),
        now_(now),
        claims_(facts.budget - std::min(facts.budget, facts.draining), memory_for_holds(facts)) {}

  Plan run() {
    std::vector<const ModelFacts*> order;
    for (const ModelFacts& model : facts_.models)
      order.push_back(&model);
    std::stable_sort(order.begin(), order.end(), [](const ModelFacts* a, const ModelFacts* b) {
      if (a->priority != b->priority) return a->priority > b->priority;
      return holds_firmly(*a) && !holds_firmly(*b);
    });
    for (const ModelFacts* model : order)
      consider(*model);
    read_again(order);
    std::stable_sort(plan_.steps.begin(), plan_.steps.end(),
                     [](const Step& a, const Step& b) { return frees(a) && !frees(b); });
    return std::move(plan_);
  }

 private:
  static bool holds_firmly(const ModelFacts& model) {
    return model.held && *model.held >= Hold::mapped;
  }
  static bool frees(const Step& step) {
    return step.kind == Step::Kind::release || step.kind == Step::Kind::demote;
  }

  Hold target_of(const ModelFacts& model) const {
    return facts_.another_holds ? Hold::cached : model.wanted_hold.value_or(Hold::mapped);
  }

  void consider(const ModelFacts& model) {
    if (model.busy) undone_ = true;
    if (!model.wanted || expired(model, now_)) {
      if (!model.held || model.busy) return;  // the end of its job lets go of it
      add(model, Step::Kind::release, *model.held,
          model.wanted ? fmt::format("not used for {}", format_duration(model.keep_alive.duration))
                       : "nobody wants it kept");
      return;
    }
    if (facts_.another_holds && holds_firmly(model)) {
      add(model, Step::Kind::demote, Hold::cached,
          "another andirond holds models on this machine, so that this one only caches them");
      return;
    }
    if (model.files.empty()) {  // not resolved, and so of no known size
      if (model.state == ModelState::cold) undone_ = true;
      return;
    }
    const Hold target = target_of(model);
    if (model.tier == Tier::pinned_ram && facts_.another_holds) {
      add(model, Step::Kind::refuse, target,
          "another andirond holds models on this machine, and has its pinned RAM",
          Errc::unavailable);
      return;
    }
    if (model.tier == Tier::vram) {
      add(model, Step::Kind::refuse, target,
          fmt::format("its tier, {}, is not in this version", to_string(model.tier)),
          Errc::unavailable);
      return;
    }
    const bool firm = target >= Hold::mapped;
    const std::uint64_t extra = claims_.extra(model);
    // A model that does not load now must not push others out in the meantime.
    if (!model.held && backing_off(model, now_)) {
      add(model, Step::Kind::wait, target, "the last try failed or was undone; trying again later");
      return;
    }
    if (!claims_.fits_memory(extra) || (firm && !claims_.fits_budget(extra))) {
      no_room(model, target, extra);
      return;
    }
    if (firm) claims_.claim(model);
    if (!model.busy) keep(model, target);
  }

  void no_room(const ModelFacts& model, Hold target, std::uint64_t extra) {
    const bool firm = target >= Hold::mapped;
    const bool budget = firm && !claims_.fits_budget(extra);
    const std::string way_out = claims_.way_out(extra, firm);
    std::string reason =
        budget ? fmt::format(
                     "it takes {}, and {} of the budget is left beside what has a higher "
                     "priority or is held already{}",
                     format_bytes(extra), format_bytes(claims_.left()), way_out)
               : fmt::format(
                     "it takes {}, and holding more than {} would leave less than {} of "
                     "memory free{}",
                     format_bytes(extra), format_bytes(claims_.left()),
                     format_bytes(facts_.headroom), way_out);
    if (budget && facts_.draining > 0) {
      reason += fmt::format("; {} more were given up, and clients still use them",
                            format_bytes(facts_.draining));
    }
    if (holds_firmly(model)) {
      add(model, Step::Kind::demote, Hold::cached, reason);
    } else if (!model.busy) {
      add(model, Step::Kind::refuse, target, reason, budget ? Errc::no_budget : Errc::no_headroom);
    }
  }

  void keep(const ModelFacts& model, Hold target) {
    if (model.held && *model.held > target && model.state == ModelState::warm) {
      add(model, Step::Kind::demote, target,
          fmt::format("it is held as {}, and {} is wanted", to_string(*model.held),
                      to_string(target)));
      return;
    }
    const bool complete = model.state == ModelState::warm && model.held && *model.held >= target;
    if (complete || model.state == ModelState::missing) return;
    if (model.ever_warmed && !model.rewarm && !model.requested) return;
    if (facts_.unified_memory && !model.wanted_hold && !model.requested) {
      add(model, Step::Kind::refuse, target,
          "CPU and GPU share the memory here, so that a second copy in the page cache would take "
          "it from the runtime; set a hold to have it all the same",
          Errc::unavailable);
      return;
    }
    if (backing_off(model, now_)) {
      add(model, Step::Kind::wait, target,
          model.lock_limit && model.state == ModelState::warm
              ? "no more of it may be locked for now; trying again later"
              : "it was evicted a moment ago; trying again later");
      return;
    }
    if (facts_.under_pressure && !model.requested) {
      add(model, Step::Kind::wait, target, "the machine is under memory pressure");
      return;
    }
    add(model, Step::Kind::warm, target, why_warm(model, target));
  }

  /// Only one at a time, since each makes way when there is something to do.
  void read_again(const std::vector<const ModelFacts*>& order) {
    if (undone_ || facts_.under_pressure || facts_.unified_memory) return;
    for (const ModelFacts* model : order) {
      if (model->was_read_again) claims_.claim(*model);
    }
    for (const ModelFacts* model : order) {
      if (!model->to_read_again || model->wanted || model->state == ModelState::warm) continue;
      if (!claims_.fits_memory(claims_.extra(*model))) continue;
      add(*model, Step::Kind::read_again, Hold::cached,
          "it was resident before the reboot, and there is nothing else to do");
      return;
    }
  }

  void add(const ModelFacts& model, Step::Kind kind, Hold hold, std::string reason,
           Errc code = Errc::no_budget) {
    std::uint64_t bytes = 0;
    for (const FilePart& part : model.files)
      bytes += part.bytes;
    // One that is warm and waits could not be locked; it keeps nobody from reading.
    if (kind == Step::Kind::warm || (kind == Step::Kind::wait && model.state != ModelState::warm)) {
      undone_ = true;
    }
    plan_.steps.push_back({kind, model.name, hold, bytes, code, std::move(reason)});
  }

  const Facts& facts_;
  SteadyTime now_;
  Claims claims_;
  Plan plan_;
  bool undone_ = false;  // something that is wanted is under way, or about to be
};

}  // namespace

std::string_view to_string(Step::Kind kind) noexcept {
  switch (kind) {
    case Step::Kind::warm:
      return "warm";
    case Step::Kind::demote:
      return "demote";
    case Step::Kind::release:
      return "release";
    case Step::Kind::refuse:
      return "refuse";
    case Step::Kind::wait:
      return "wait";
    case Step::Kind::read_again:
      return "read-again";
  }
  return "wait";
}

Plan plan(const Facts& facts, SteadyTime now) { return Planner(facts, now).run(); }

std::uint64_t auto_headroom(std::uint64_t memory_limit) noexcept {
  return std::min(std::max(2 * kGiB, memory_limit / 10), memory_limit / 2);
}

}  // namespace andiron::policy
