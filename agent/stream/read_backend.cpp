// SPDX-License-Identifier: MIT
#include "agent/stream/read_backend.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "agent/base/check.hpp"
#include "agent/base/log.hpp"

namespace andiron::stream {
namespace {

// The kernel cuts a read at 2 GiB less a page, and io_uring's length has 32 bits. A power of two,
// so that a cut keeps every alignment.
constexpr std::size_t kLargestRead = std::size_t{1} << 30;
// Far above any device's (4 KiB, 64 KiB on some arrays), and no more than kLargestRead.
constexpr std::uint32_t kLargestAlignment = 1U << 20;
// EAGAIN without end would be a busy loop. A signal storm or a full queue passes sooner.
constexpr unsigned kRetries = 64;
// Longer waits say "for ever", and would overflow the clock's sums.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(1);
// An id's place that the backends use for their own completions.
constexpr std::uint64_t kReservedId = std::numeric_limits<std::uint64_t>::max();

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout)
      : at_(std::chrono::steady_clock::now() +
            std::clamp(timeout, std::chrono::milliseconds(0), kLongestWait)) {}
  /// Rounded up, so that a wait of less than a millisecond is not a busy loop.
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(
                                                      at_ - std::chrono::steady_clock::now()));
  }

 private:
  std::chrono::steady_clock::time_point at_;
};

std::string describe(const ReadRequest& request) {
  return fmt::format("read {} bytes at {}", request.buffer.size(), request.offset);
}

}  // namespace

Result<void> ReadBackend::check(const ReadRequest& request) const {
  const auto refuse = [&request](const std::string& why) {
    return make_error(Errc::bad_request, describe(request) + ": " + why);
  };
  if (request.buffer.empty()) return refuse("nothing to read");
  if (request.alignment == 0 || request.alignment > kLargestAlignment ||
      (request.alignment & (request.alignment - 1)) != 0) {
    return refuse(fmt::format("an alignment of {}", request.alignment));
  }
  const std::uint64_t mask = request.alignment - 1;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the address's low bits.
  const auto address = reinterpret_cast<std::uintptr_t>(request.buffer.data());
  if (((request.offset | request.buffer.size() | address) & mask) != 0) {
    return refuse(fmt::format("offset, length or address not aligned to {}", request.alignment));
  }
  constexpr auto kLargestOffset =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (request.offset > kLargestOffset || request.buffer.size() > kLargestOffset - request.offset) {
    return refuse("past the largest file offset");
  }
  if (request.memory) {
    if (*request.memory >= kMemorySlots) return refuse("no such memory slot");
    const std::span<std::byte> memory = memory_[*request.memory];
    if (request.buffer.data() < memory.data() ||
        request.buffer.data() + request.buffer.size() > memory.data() + memory.size()) {
      return refuse("not in the registered memory that it names");
    }
  }
  if (request.id == kReservedId) return refuse("the reserved id");
  if (pending_.contains(request.id)) return refuse("its id is in flight");
  if (pending_.size() >= depth()) return refuse(fmt::format("{} are in flight", depth()));
  return {};
}

/// Puts what is left of a read into the kernel. It begins at an aligned place, so after a short
/// direct read some bytes are read twice.
Result<void> ReadBackend::start(Pending& pending) {
  pending.at = pending.done & ~(std::size_t{pending.whole.alignment} - 1);
  pending.asked = std::min(pending.whole.buffer.size() - pending.at, kLargestRead);
  ReadRequest raw = pending.whole;
  raw.offset += pending.at;
  raw.buffer = raw.buffer.subspan(pending.at, pending.asked);
  return do_submit(raw).wrap(describe(pending.whole));
}

Result<void> ReadBackend::submit(const ReadRequest& request) {
  TRY(check(request));
  Pending& pending = pending_[request.id];
  pending.whole = request;
  Result<void> started = start(pending);
  if (!started) pending_.erase(request.id);
  return started;
}

/// What one answer of the kernel means: the end of a request, or its continuation.
std::optional<ReadCompletion> ReadBackend::settle(const RawCompletion& raw) {
  const auto found = pending_.find(raw.id);
  CHECK(found != pending_.end());
  Pending& pending = found->second;
  const auto finish = [&](Result<std::size_t> bytes) {
    pending_.erase(found);
    return ReadCompletion{raw.id, std::move(bytes)};
  };
  if (raw.result == -EINTR || raw.result == -EAGAIN) {
    if (pending.retries++ >= kRetries) {
      return finish(make_system_error(static_cast<int>(-raw.result), describe(pending.whole)));
    }
  } else if (raw.result < 0) {
    return finish(make_system_error(static_cast<int>(-raw.result), describe(pending.whole)));
  } else {
    const auto got = static_cast<std::size_t>(raw.result);
    if (got > pending.asked) return finish(make_system_error(EIO, describe(pending.whole)));
    // No byte further than before: the end of the file. A short read alone does not say so; the
    // tail of a direct read is read twice to know.
    if (pending.at + got <= pending.done) return finish(pending.done);
    pending.done = pending.at + got;
    pending.retries = 0;
    if (pending.done == pending.whole.buffer.size()) return finish(pending.done);
  }
  if (Result<void> again = start(pending); !again) return finish(std::move(again).error());
  return std::nullopt;
}

Result<std::vector<ReadCompletion>> ReadBackend::reap(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  std::vector<ReadCompletion> completions;
  while (!pending_.empty()) {
    const std::chrono::milliseconds left = deadline.left();
    const std::vector<RawCompletion> raws = TRY(do_reap(left));
    for (const RawCompletion& raw : raws) {
      if (std::optional<ReadCompletion> completion = settle(raw)) {
        completions.push_back(std::move(*completion));
      }
    }
    if (!completions.empty() || left.count() == 0) break;
  }
  return completions;
}

Result<void> ReadBackend::cancel_all(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  for (const auto& [id, pending] : pending_)
    do_cancel(id);
  while (!pending_.empty()) {
    const std::chrono::milliseconds left = deadline.left();
    const std::vector<RawCompletion> raws = TRY(do_reap(left));
    for (const RawCompletion& raw : raws)
      pending_.erase(raw.id);
    if (left.count() == 0 && !pending_.empty()) {
      return make_error(Errc::timeout, fmt::format("{} reads stay in the kernel", pending_.size()));
    }
  }
  return {};
}

Result<void> ReadBackend::register_memory(unsigned slot, std::span<std::byte> memory) {
  CHECK(slot < kMemorySlots && memory_[slot].empty());
  if (memory.empty() || memory.size() > kLargestRead) {
    return make_error(Errc::bad_request, fmt::format("register {} bytes", memory.size()));
  }
  TRY(do_register(slot, memory));
  memory_[slot] = memory;
  return {};
}

void ReadBackend::unregister_memory(unsigned slot) noexcept {
  CHECK(slot < kMemorySlots);
  if (std::exchange(memory_[slot], {}).empty()) return;
  if (const Result<void> done = do_register(slot, {}); !done) {
    log::debug("registered memory is not given back: {}", done.error().message());
  }
}

Result<void> ReadBackend::do_register(unsigned, std::span<std::byte>) {
  return make_error(Errc::unavailable, std::string(name()) + " registers no memory");
}

std::unique_ptr<ReadBackend> make_read_backend(std::size_t depth) {
  Result<std::unique_ptr<ReadBackend>> ring = make_uring_backend(depth);
  if (ring) return std::move(*ring);
  log::debug("{}, falling back to pread", ring.error().message());
  return make_pread_backend();
}

}  // namespace andiron::stream
