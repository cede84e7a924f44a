// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "agent/base/result.hpp"

namespace andiron::tier {

class Ledger;

/// Bytes set aside in a ledger; they go back when it ends. Owned by whoever holds or loads them.
class Reservation {
 public:
  Reservation() noexcept = default;
  Reservation(Reservation&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { release(); }

  std::uint64_t bytes() const noexcept { return bytes_; }
  void release() noexcept;

 private:
  friend class Ledger;
  Reservation(Ledger& ledger, std::uint64_t bytes) noexcept : ledger_(&ledger), bytes_(bytes) {}
  Ledger* ledger_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// What a tier's budget is used for. Thread: the control loop's. Outlives its reservations.
class Ledger {
 public:
  explicit Ledger(std::uint64_t budget) : budget_(budget) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Errors: no_budget, saying what is used and what is missing.
  Result<Reservation> reserve(std::uint64_t bytes);
  /// A smaller budget takes nothing back by itself: used() may exceed it until holders yield.
  void set_budget(std::uint64_t budget) noexcept { budget_ = budget; }
  std::uint64_t budget() const noexcept { return budget_; }
  /// What nobody holds any longer, and is not free all the same: clients still use it.
  void set_draining(std::uint64_t bytes) noexcept { draining_ = bytes; }
  std::uint64_t draining() const noexcept { return draining_; }
  /// Reserved or draining.
  std::uint64_t used() const noexcept { return used_ + draining_; }

 private:
  friend class Reservation;
  std::uint64_t budget_;
  std::uint64_t used_ = 0;  // reserved
  std::uint64_t draining_ = 0;
};

}  // namespace andiron::tier
