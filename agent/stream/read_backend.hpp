// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/os/capability.hpp"

namespace andiron::stream {

/// One read: `buffer.size()` bytes of fd at `offset` into buffer, which the caller keeps alive and
/// untouched until its completion was reaped, or cancel_all() succeeded.
struct ReadRequest {
  std::uint64_t id = 0;  // the caller's, unique among those in flight; any but the largest
  int fd = -1;           // open until then, too
  std::uint64_t offset = 0;
  std::span<std::byte> buffer;
  std::uint32_t alignment = 1;  // what the fd wants of offset, length and address: 1 for buffered
  /// The registered memory that the buffer lies in (register_memory), if it does.
  std::optional<unsigned> memory = {};
};

struct ReadCompletion {
  std::uint64_t id = 0;
  /// Bytes read: all of the buffer, or fewer at end of file only. Short reads inside the file were
  /// continued already; EINTR and EAGAIN were tried again.
  Result<std::size_t> bytes;
};

/// Reads in flight on one thread. The public part checks, accounts and continues short reads, once
/// for every backend; a backend only moves requests.
/// Thread: the one that made it. Blocks: reap, up to its timeout; a pread backend in submit.
/// The end of a backend with reads in flight cancels them and waits a moment, but cannot report:
/// who owns the buffers calls cancel_all() before it frees them.
class ReadBackend {
 public:
  ReadBackend() = default;
  virtual ~ReadBackend() = default;
  ReadBackend(const ReadBackend&) = delete;
  ReadBackend& operator=(const ReadBackend&) = delete;

  /// Errors: bad_request for a misaligned or empty request, an id that is in flight, or when
  /// `depth()` are; else what the kernel said to the submission.
  Result<void> submit(const ReadRequest& request);
  /// At least one completion when any is in flight, or none at the timeout.
  Result<std::vector<ReadCompletion>> reap(std::chrono::milliseconds timeout);
  /// Asks the kernel to give up on all that is in flight, and waits until it did. Afterwards no
  /// buffer is written to any more, and there is nothing to reap.
  /// Errors: timeout when some reads stay in the kernel (a dead network file system or disk): the
  /// caller must then keep their buffers and fds for the life of the process. Call again, or leak.
  Result<void> cancel_all(std::chrono::milliseconds timeout);

  /// Memory that many reads will go to, so that the kernel looks up its pages once and not for each
  /// read; what is not there yet comes in. Slots are 0 to kMemorySlots - 1, free before; at most
  /// 1 GiB each. Errors: unavailable where the backend or the kernel cannot, ENOMEM where
  /// RLIMIT_MEMLOCK is short; reads then go there as to any memory.
  Result<void> register_memory(unsigned slot, std::span<std::byte> memory);
  /// No read that names the slot may be in flight.
  void unregister_memory(unsigned slot) noexcept;
  static constexpr unsigned kMemorySlots = 8;

  std::size_t in_flight() const noexcept { return pending_.size(); }
  virtual std::size_t depth() const noexcept = 0;
  virtual const char* name() const noexcept = 0;

 protected:
  struct RawCompletion {
    std::uint64_t id = 0;
    std::int64_t result = 0;  // bytes, or a negated errno
  };
  virtual Result<void> do_submit(const ReadRequest& request) = 0;
  /// What is there, after a wait of at most `timeout` if there is nothing; may come back early.
  virtual Result<std::vector<RawCompletion>> do_reap(std::chrono::milliseconds timeout) = 0;
  /// Best effort; the read's completion comes all the same, with whatever result.
  virtual void do_cancel(std::uint64_t id) noexcept = 0;
  /// An empty span takes the slot's memory back.
  virtual Result<void> do_register(unsigned slot, std::span<std::byte> memory);

  // For a backend that stands below the checks and in front of another one, as the tests' does.
  static Result<void> raw_submit(ReadBackend& inner, const ReadRequest& request) {
    return inner.do_submit(request);
  }
  static Result<std::vector<RawCompletion>> raw_reap(ReadBackend& inner,
                                                     std::chrono::milliseconds timeout) {
    return inner.do_reap(timeout);
  }
  static void raw_cancel(ReadBackend& inner, std::uint64_t id) noexcept { inner.do_cancel(id); }
  static Result<void> raw_register(ReadBackend& inner, unsigned slot, std::span<std::byte> memory) {
    return inner.do_register(slot, memory);
  }

 private:
  struct Pending {
    ReadRequest whole;
    std::size_t done = 0;   // bytes that are in the buffer
    std::size_t at = 0;     // where in the buffer the read in the kernel began
    std::size_t asked = 0;  // its length
    unsigned retries = 0;   // in a row, without a byte
  };
  Result<void> check(const ReadRequest& request) const;
  Result<void> start(Pending& pending);
  std::optional<ReadCompletion> settle(const RawCompletion& raw);

  std::unordered_map<std::uint64_t, Pending> pending_;
  std::array<std::span<std::byte>, kMemorySlots> memory_{};
};

/// io_uring with the set-up ladder SINGLE_ISSUER|DEFER_TASKRUN|COOP_TASKRUN|SUBMIT_ALL (6.1),
/// COOP_TASKRUN (5.19), plain (5.15), proved by a read. Made on the thread that uses it.
/// `depth` is 1 to 4096. Errors: unavailable with the errno in words (seccomp and
/// io_uring_disabled give EPERM).
Result<std::unique_ptr<ReadBackend>> make_uring_backend(std::size_t depth);
/// pread(2), one at a time, in submit.
std::unique_ptr<ReadBackend> make_pread_backend();
/// The first of the two that this machine allows, tried by use; name() says which, probe_uring()
/// why.
std::unique_ptr<ReadBackend> make_read_backend(std::size_t depth);
/// Whether io_uring works here, tried by a read. Off where reads go through pread instead.
os::Capability probe_uring();

}  // namespace andiron::stream
