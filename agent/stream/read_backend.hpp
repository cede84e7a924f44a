// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/os/capability.hpp"

namespace andiron::stream {

/// One read: `buffer.size()` bytes of fd at `offset` into buffer, which the caller keeps alive and
/// untouched until its completion was reaped.
struct ReadRequest {
  std::uint64_t id = 0;  // the caller's, unique among those in flight
  int fd = -1;
  std::uint64_t offset = 0;
  std::span<std::byte> buffer;
  std::uint32_t alignment = 1;  // what the fd wants of offset, length and address: 1 for buffered
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
class ReadBackend {
 public:
  virtual ~ReadBackend() = default;

  /// Errors: bad_request for a misaligned or empty request, or when `depth()` are in flight.
  Result<void> submit(const ReadRequest& request);
  /// At least one completion when any is in flight, or none at the timeout.
  Result<std::vector<ReadCompletion>> reap(std::chrono::milliseconds timeout);

  std::size_t in_flight() const noexcept { return pending_.size(); }
  virtual std::size_t depth() const noexcept = 0;
  virtual const char* name() const noexcept = 0;

 protected:
  struct RawCompletion {
    std::uint64_t id = 0;
    std::int64_t result = 0;  // bytes, or a negated errno
  };
  virtual Result<void> do_submit(const ReadRequest& request) = 0;
  virtual Result<std::vector<RawCompletion>> do_reap(std::chrono::milliseconds timeout) = 0;

 private:
  struct Pending {
    ReadRequest whole;
    std::size_t done = 0;
    unsigned retries = 0;
  };
  std::unordered_map<std::uint64_t, Pending> pending_;
};

/// io_uring with the set-up ladder SINGLE_ISSUER|DEFER_TASKRUN|COOP_TASKRUN|SUBMIT_ALL (6.1),
/// COOP_TASKRUN (5.19), plain (5.15). Made on the thread that uses it.
/// Errors: unavailable with the errno in words (seccomp and io_uring_disabled give EPERM).
Result<std::unique_ptr<ReadBackend>> make_uring_backend(std::size_t depth);
/// pread(2), one at a time, in submit.
std::unique_ptr<ReadBackend> make_pread_backend();
/// The first of the two that this machine allows, tried by use.
std::unique_ptr<ReadBackend> make_read_backend(std::size_t depth);
/// Whether io_uring works here, tried by a read.
os::Capability probe_uring();

}  // namespace andiron::stream
