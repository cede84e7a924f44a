// SPDX-License-Identifier: MIT
#include <fmt/core.h>
#include <liburing.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "agent/base/log.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/text_file.hpp"
#include "agent/stream/read_backend.hpp"

namespace andiron::stream {
namespace {

using std::chrono::milliseconds;

// What nobody waits for: cancellations, and reads that were taken back before the kernel saw them.
constexpr std::uint64_t kNobody = std::numeric_limits<std::uint64_t>::max();
// The kernel allows 32768; a lane that has thousands of reads in flight gains nothing.
constexpr std::size_t kLargestDepth = 4096;
// How long the end of a backend waits for cancelled reads. Those of a disk that works come back in
// milliseconds; what does not come in this time is a dead device, and waiting more is no help.
constexpr milliseconds kLastWait{2000};
// A read of memory that is there takes microseconds.
constexpr milliseconds kProofWait{2000};

struct Rung {
  unsigned flags;
  const char* words;
};
// From the best for one thread that reaps what it submitted, to what 5.15 knows. The kernel says
// EINVAL to flags that it does not know.
constexpr std::array kLadder = {
    Rung{IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN |
             IORING_SETUP_SUBMIT_ALL,
         "single issuer, deferred task work"},
    Rung{IORING_SETUP_COOP_TASKRUN, "cooperative task work"},
    Rung{0, "plain"},
};

/// The kernel took nothing now, but will when asked again.
bool is_passing(int result) { return result == -EINTR || result == -EAGAIN || result == -EBUSY; }

class UringBackend final : public ReadBackend {
 public:
  static Result<std::unique_ptr<UringBackend>> create(std::size_t depth);
  ~UringBackend() override;

  std::size_t depth() const noexcept override { return depth_; }
  const char* name() const noexcept override { return "io_uring"; }
  const char* rung() const noexcept { return rung_; }

 protected:
  Result<void> do_submit(const ReadRequest& request) override;
  Result<std::vector<RawCompletion>> do_reap(milliseconds timeout) override;
  void do_cancel(std::uint64_t id) noexcept override;
  Result<void> do_register(unsigned slot, std::span<std::byte> memory) override;

 private:
  UringBackend(const io_uring& ring, std::size_t depth, const char* rung)
      : ring_(ring), depth_(depth), rung_(rung) {}
  Result<void> prove();

  io_uring ring_;
  std::size_t depth_;
  const char* rung_;
  bool has_slots_ = false;  // for registered memory: made when first wanted
};

Result<std::unique_ptr<UringBackend>> UringBackend::create(std::size_t depth) {
  if (depth == 0 || depth > kLargestDepth) {
    return make_error(Errc::bad_request, fmt::format("a ring of {} reads", depth));
  }
  int failure = 0;
  for (const Rung& rung : kLadder) {
    io_uring ring{};
    io_uring_params params{};
    params.flags = rung.flags;
    failure = -::io_uring_queue_init_params(static_cast<unsigned>(depth), &ring, &params);
    if (failure == EINVAL) continue;
    if (failure != 0) break;
    std::unique_ptr<UringBackend> backend(new UringBackend(ring, depth, rung.words));
    // 5.11. Without it a wait with a timeout is a request of its own, which would need its place.
    if ((params.features & IORING_FEAT_EXT_ARG) == 0) {
      return make_system_error(ENOSYS, "io_uring waits with a timeout");
    }
    TRY(backend->prove());
    return backend;
  }
  return make_system_error(failure, "io_uring_setup");
}

/// A ring that can be made need not work: seccomp filters may know set-up and refuse the rest.
Result<void> UringBackend::prove() {
  const UniqueFd file(::memfd_create("andiron-io-uring-probe", MFD_CLOEXEC));
  if (!file) return make_system_error(errno, "memfd_create");
  constexpr std::array<char, 8> kPattern = {'a', 'n', 'd', 'i', 'r', 'o', 'n', '.'};
  const ssize_t written = ::pwrite(file.get(), kPattern.data(), kPattern.size(), 0);
  if (written != static_cast<ssize_t>(kPattern.size())) {
    return make_system_error(EIO, "write a memfd");
  }
  auto got = std::make_unique<std::array<char, kPattern.size()>>();
  TRY(submit({.id = 1, .fd = file.get(), .buffer = std::as_writable_bytes(std::span(*got))}));
  const auto reaped = reap(kProofWait);
  if (!reaped || reaped->empty()) {
    // The kernel may write there as long as it does not give the read back.
    if (!cancel_all(kProofWait)) static_cast<void>(got.release());
    return reaped ? make_system_error(ETIMEDOUT, "io_uring read") : reaped.error();
  }
  const Result<std::size_t>& bytes = reaped->front().bytes;
  if (!bytes) return Result<void>(bytes.error()).wrap("io_uring");
  if (*got != kPattern) return make_system_error(EIO, "io_uring read other bytes");
  return {};
}

UringBackend::~UringBackend() {
  if (const Result<void> cancelled = cancel_all(kLastWait); !cancelled) {
    // The kernel goes on with them after the ring is closed and may yet write into their buffers;
    // whoever owns those was told to keep them when its own cancel_all() failed.
    log::debug("io_uring: {}; their buffers must stay", cancelled.error().message());
  }
  ::io_uring_queue_exit(&ring_);
}

Result<void> UringBackend::do_submit(const ReadRequest& request) {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) return make_system_error(EAGAIN, "io_uring_get_sqe");
  const auto length = static_cast<unsigned>(request.buffer.size());
  if (request.memory) {
    ::io_uring_prep_read_fixed(entry, request.fd, request.buffer.data(), length, request.offset,
                               static_cast<int>(*request.memory));
  } else {
    ::io_uring_prep_read(entry, request.fd, request.buffer.data(), length, request.offset);
  }
  ::io_uring_sqe_set_data64(entry, request.id);
  const int result = ::io_uring_submit(&ring_);
  if (result < 0 && !is_passing(result)) {
    // It is still in the queue and would go with the next submission, after its buffer is gone.
    ::io_uring_prep_nop(entry);
    ::io_uring_sqe_set_data64(entry, kNobody);
    return make_system_error(-result, "io_uring_enter");
  }
  return {};
}

Result<std::vector<ReadBackend::RawCompletion>> UringBackend::do_reap(milliseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  __kernel_timespec wait{};
  wait.tv_sec = seconds.count();
  wait.tv_nsec = std::chrono::nanoseconds(timeout - seconds).count();
  io_uring_cqe* first = nullptr;
  // Submits what a busy kernel did not take before, too.
  const int result = ::io_uring_submit_and_wait_timeout(&ring_, &first, 1, &wait, nullptr);
  std::vector<RawCompletion> completions;
  std::array<io_uring_cqe*, 64> batch{};
  while (const unsigned count =
             ::io_uring_peek_batch_cqe(&ring_, batch.data(), static_cast<unsigned>(batch.size()))) {
    for (const io_uring_cqe* entry : std::span(batch).first(count)) {
      if (entry->user_data != kNobody) completions.push_back({entry->user_data, entry->res});
    }
    ::io_uring_cq_advance(&ring_, count);
  }
  if (completions.empty() && result < 0 && result != -ETIME && !is_passing(result)) {
    return make_system_error(-result, "io_uring_enter");
  }
  return completions;
}

void UringBackend::do_cancel(std::uint64_t id) noexcept {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) return;
  ::io_uring_prep_cancel64(entry, id, 0);
  ::io_uring_sqe_set_data64(entry, kNobody);
  ::io_uring_submit(&ring_);
}

Result<void> UringBackend::do_register(unsigned slot, std::span<std::byte> memory) {
  if (!has_slots_) {
    const int made = ::io_uring_register_buffers_sparse(&ring_, kMemorySlots);  // 5.19
    if (made < 0) return make_system_error(-made, "io_uring_register_buffers_sparse");
    has_slots_ = true;
  }
  const iovec region{memory.data(), memory.size()};
  const __u64 tag = 0;
  const int result = ::io_uring_register_buffers_update_tag(&ring_, slot, &region, &tag, 1);
  if (result < 0) return make_system_error(-result, "io_uring_register_buffers_update");
  return {};
}

std::string remedy_for(int failure) {
  switch (failure) {
    case EPERM:
    case EACCES: {
      const std::uint64_t disabled =
          os::read_number("/proc/sys/kernel/io_uring_disabled").value_or(0);
      if (disabled != 0) {
        return fmt::format(
            "kernel.io_uring_disabled is {}: sysctl kernel.io_uring_disabled=0, or 1 and the agent "
            "in kernel.io_uring_group",
            disabled);
      }
      return "a seccomp filter refuses io_uring, as Docker's default profile does: allow "
             "io_uring_setup, io_uring_enter and io_uring_register in a profile of your own "
             "(--security-opt seccomp=FILE), or run the agent on the host";
    }
    case ENOSYS:
    case EINVAL:
      return "a kernel of 5.15 or later, built with CONFIG_IO_URING";
    case ENOMEM:
      return "more locked memory: LimitMEMLOCK=infinity in the unit, or ulimit -l";
    case EMFILE:
    case ENFILE:
      return "more open files: LimitNOFILE in the unit, or ulimit -n";
    default:
      return "";
  }
}

}  // namespace

Result<std::unique_ptr<ReadBackend>> make_uring_backend(std::size_t depth) {
  Result<std::unique_ptr<UringBackend>> made = UringBackend::create(depth);
  if (made) return std::unique_ptr<ReadBackend>(std::move(*made));
  if (made.error().errc() == Errc::bad_request) return std::move(made).error();
  return make_error(Errc::unavailable, made.error().message());
}

os::Capability probe_uring() {
  const Result<std::unique_ptr<UringBackend>> made = UringBackend::create(1);
  if (made) return {"io_uring", os::Capability::State::on, (*made)->rung(), ""};
  return {"io_uring", os::Capability::State::off,
          made.error().message() + ", falling back to pread",
          remedy_for(made.error().code.value())};
}

}  // namespace andiron::stream
