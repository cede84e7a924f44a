// SPDX-License-Identifier: MIT
#include "agent/stream/transfer.hpp"

namespace andiron::stream {

Result<void> TransferControl::check(SteadyTime now) const {
  // Cancelled first: who cancelled knows already, and a timeout would be news.
  if (cancelled()) return make_error(Errc::cancelled, "transfer");
  if (deadline_ && now >= *deadline_) return make_error(Errc::timeout, "transfer");
  return {};
}

}  // namespace andiron::stream
