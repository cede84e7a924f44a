// SPDX-License-Identifier: MIT
#include "agent/tier/step_queue.hpp"

#include <algorithm>
#include <utility>

namespace andiron::tier {
namespace {

/// What one taker is to ask for at once, of small steps: asking takes 0.2 CPU seconds a GB, and is
/// shared so among all who would else wait for pages that nobody asked for yet.
constexpr std::size_t kAskAtOnce = 8;

}  // namespace

StepQueue::StepQueue(std::vector<FillStep> steps, std::uint64_t ahead)
    : steps_(std::move(steps)), done_(steps_.size()), ahead_(ahead) {
  const auto resident = std::stable_partition(steps_.begin(), steps_.end(),
                                              [](const FillStep& step) { return step.missing; });
  missing_ = static_cast<std::size_t>(resident - steps_.begin());
  next_resident_ = missing_;
}

std::optional<StepQueue::Work> StepQueue::take(Role role) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return std::nullopt;
  while (next_missing_ < missing_ && done_[next_missing_])
    ++next_missing_;
  if (role == Role::reader && next_missing_ < missing_) return hand_out(next_missing_++);
  while (next_resident_ < steps_.size() && done_[next_resident_])
    ++next_resident_;
  if (next_resident_ < steps_.size()) return hand_out(next_resident_++);
  return std::nullopt;
}

StepQueue::Work StepQueue::hand_out(std::size_t index) {
  Work work{index, steps_[index], {}};
  if (index >= missing_) return work;
  for (; asked_ < missing_ && work.ahead.size() < kAskAtOnce &&
         (asked_ <= index || in_flight_ < ahead_);
       ++asked_) {
    const FillStep& step = steps_[asked_];
    if (!step.ask_ahead || done_[asked_]) continue;
    in_flight_ += step.range.length;
    work.ahead.push_back(step.range);
  }
  return work;
}

void StepQueue::done(std::size_t index) {
  const std::lock_guard lock(mutex_);
  done_[index] = true;
  // After a restart it may not have been asked for again.
  if (steps_[index].ask_ahead) in_flight_ -= std::min(in_flight_, steps_[index].range.length);
}

void StepQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

void StepQueue::stop(Error error) {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (!error_) error_ = std::move(error);
}

void StepQueue::stop_at_fault(std::size_t index) {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  fault_ = std::min(index, fault_.value_or(index));
}

void StepQueue::restart() {
  const std::lock_guard lock(mutex_);
  next_missing_ = 0;
  next_resident_ = missing_;
  asked_ = 0;
  in_flight_ = 0;
  stopped_ = false;
}

std::vector<FillStep> StepQueue::rest() const {
  std::vector<FillStep> rest;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!done_[i]) rest.push_back(steps_[i]);
  }
  return rest;
}

}  // namespace andiron::tier
