// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "agent/stream/read_backend.hpp"

namespace andiron::testing {

/// A backend in front of another one, with faults by script. The faults happen where the kernel's
/// would: below the checks, the accounting and the continuing of short reads. Reads are counted
/// from 1 as they go down, continuations too.
///   FaultyBackend reads(stream::make_pread_backend());
///   reads.short_read_at(3).fail_at(7, EIO).again_at(2).stall_at(9);
/// Thread: as ReadBackend; release() from any.
class FaultyBackend final : public stream::ReadBackend {
 public:
  explicit FaultyBackend(std::unique_ptr<stream::ReadBackend> inner) : inner_(std::move(inner)) {}

  /// Gives half of what was asked for, in whole alignments, and at least one.
  FaultyBackend& short_read_at(unsigned n) { return script(n, {Fault::short_read, 0}); }
  FaultyBackend& fail_at(unsigned n, int error) { return script(n, {Fault::fail, error}); }
  FaultyBackend& again_at(unsigned n) { return fail_at(n, EAGAIN); }
  FaultyBackend& eof_at(unsigned n) { return fail_at(n, 0); }
  /// The submission itself is refused.
  FaultyBackend& refuse_at(unsigned n, int error) { return script(n, {Fault::refuse, error}); }
  /// Stays in the kernel, cancelled or not, until release().
  FaultyBackend& stall_at(unsigned n) { return script(n, {Fault::stall, 0}); }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  unsigned submitted() const noexcept { return count_; }
  std::size_t depth() const noexcept override { return inner_->depth(); }
  const char* name() const noexcept override { return "faulty"; }

 protected:
  Result<void> do_submit(const stream::ReadRequest& request) override {
    const auto found = faults_.find(++count_);
    const auto [fault, error] = found == faults_.end() ? Script{} : found->second;
    switch (fault) {
      case Fault::none:
        break;
      case Fault::short_read: {
        stream::ReadRequest less = request;
        const std::size_t half = request.buffer.size() / 2;
        less.buffer = less.buffer.first(
            std::max<std::size_t>(half - half % request.alignment, request.alignment));
        return pass_on(less);
      }
      case Fault::fail:
        ready_.push_back({request.id, -error});
        return {};
      case Fault::refuse:
        return make_system_error(error, "refused by script");
      case Fault::stall:
        stalled_.push_back(request);
        return {};
    }
    return pass_on(request);
  }

  Result<std::vector<RawCompletion>> do_reap(std::chrono::milliseconds timeout) override {
    TRY(unstall(inner_in_flight_ == 0 && ready_.empty() ? timeout : std::chrono::milliseconds(0)));
    std::vector<RawCompletion> all = std::exchange(ready_, {});
    if (inner_in_flight_ > 0) {
      const auto wait = all.empty() ? timeout : std::chrono::milliseconds(0);
      const std::vector<RawCompletion> inner = TRY(raw_reap(*inner_, wait));
      inner_in_flight_ -= inner.size();
      all.insert(all.end(), inner.begin(), inner.end());
    }
    return all;
  }

  void do_cancel(std::uint64_t id) noexcept override { raw_cancel(*inner_, id); }

 private:
  enum class Fault { none, short_read, fail, refuse, stall };
  using Script = std::pair<Fault, int>;

  FaultyBackend& script(unsigned n, Script what) {
    faults_[n] = what;
    return *this;
  }
  Result<void> pass_on(const stream::ReadRequest& request) {
    TRY(raw_submit(*inner_, request));
    ++inner_in_flight_;
    return {};
  }
  /// Lets the stalled reads go on once they were released.
  Result<void> unstall(std::chrono::milliseconds timeout) {
    if (stalled_.empty()) return {};
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, timeout, [this] { return released_; })) return {};
    }
    for (const stream::ReadRequest& request : std::exchange(stalled_, {}))
      TRY(pass_on(request));
    return {};
  }

  std::unique_ptr<stream::ReadBackend> inner_;
  std::map<unsigned, Script> faults_;
  unsigned count_ = 0;
  std::size_t inner_in_flight_ = 0;
  std::vector<RawCompletion> ready_;
  std::vector<stream::ReadRequest> stalled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

}  // namespace andiron::testing
