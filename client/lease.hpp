// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/mapped_region.hpp"
#include "agent/base/result.hpp"
#include "client/include/andiron.h"
#include "client/lease_index.hpp"
#include "client/lease_socket.hpp"
#include "client/tensor_table.hpp"

namespace andiron::client {

/// The agent's no, which is an answer and no fault.
struct Refusal {
  std::string code;
  std::string message;
};

struct Revocation {
  std::string reason;
  std::uint32_t deadline_ms = 0;
};

struct LeaseRequest {
  std::string socket;
  std::string model;   // empty: source_fd
  int source_fd = -1;  // borrowed for the call
  std::string tier;
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds timeout{0};
};

/// A lease and everything that it gives out. Owns the connection and the mappings; neither moves
/// nor changes once it is there, but for what dispatch() hears, and for the tensors, which are read
/// when somebody first asks for them. Thread: const members any, dispatch() one.
class Lease {
 public:
  using Answer = std::variant<std::unique_ptr<Lease>, Refusal>;
  /// Blocks: wait + timeout at most. Errors: those of LeaseSocket, bad_format for an agent that
  /// breaks the protocol, io_error where something cannot be mapped.
  static Result<Answer> open(const LeaseRequest& request);

  const LeaseIndex& index() const noexcept { return file_.index(); }
  std::uint64_t number() const noexcept { return number_; }
  std::uint64_t generation() const noexcept { return generation_; }
  const std::vector<andiron_segment>& segments() const noexcept { return segments_; }
  /// The lease's own. Blocks: the first time, while they are read and checked, for what grows with
  /// their number. Errors, which stay: bad_format, too_large, io_error.
  Result<const TensorTable*> tensors() const;

  int poll_fd() const noexcept { return socket_.fd(); }
  bool revoked() const noexcept { return revoked_.load(std::memory_order_relaxed); }
  /// What the agent sent since: the last revoke, or nothing. Never blocks. Errors: unavailable when
  /// it hung up, bad_format for what may not come now.
  Result<std::optional<Revocation>> dispatch();

  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() = default;

 private:
  explicit Lease(LeaseSocket socket) : socket_(std::move(socket)) {}
  Result<std::optional<Refusal>> take_grant(Deadline deadline);
  Result<void> take_segments(Packet first, bool more, Deadline deadline);
  Result<void> map(std::uint64_t place, const UniqueFd& fd, std::uint64_t bytes);
  void show();

  LeaseSocket socket_;
  std::uint64_t number_ = 0;
  std::uint64_t generation_ = 0;
  std::vector<MappedRegion> regions_;  // by the place of their descriptor, the index's being none
  std::vector<andiron_segment> segments_;
  std::atomic<bool> revoked_{false};

  mutable std::mutex reading_;  // guards tensors_, and file_ but for its index(), which stays
  mutable IndexFile file_;
  mutable std::optional<Result<std::unique_ptr<const TensorTable>>> tensors_;
  mutable std::atomic<const TensorTable*> table_{nullptr};  // once it is there
};

}  // namespace andiron::client
