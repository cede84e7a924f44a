// SPDX-License-Identifier: MIT
#include "agent/tier/ledger.hpp"

#include <string>
#include <utility>

#include "agent/base/check.hpp"
#include "agent/base/units.hpp"

namespace andiron::tier {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Reservation::release() noexcept {
  if (ledger_ == nullptr) return;
  CHECK(ledger_->used_ >= bytes_);
  ledger_->used_ -= bytes_;
  ledger_ = nullptr;
  bytes_ = 0;
}

Result<Reservation> Ledger::reserve(std::uint64_t bytes) {
  const std::uint64_t left = budget_ > used() ? budget_ - used() : 0;
  // Compared with what is left, since used() + bytes may overflow.
  if (bytes > left) {
    std::string why = format_bytes(bytes) + " wanted, " + format_bytes(used()) + " of " +
                      format_bytes(budget_) + " used, " + format_bytes(bytes - left) + " missing";
    if (draining_ > 0)
      why += "; " + format_bytes(draining_) + " are given up, and clients still use them";
    return make_error(Errc::no_budget, std::move(why));
  }
  used_ += bytes;
  return Reservation(*this, bytes);
}

}  // namespace andiron::tier
