// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/stream/read_backend.hpp"

namespace andiron::stream {
namespace {

/// Everything happens in submit; reap hands over the result.
class PreadBackend final : public ReadBackend {
 public:
  std::size_t depth() const noexcept override { return 1; }
  const char* name() const noexcept override { return "pread"; }

 protected:
  Result<void> do_submit(const ReadRequest& request) override {
    const ssize_t got = ::pread(request.fd, request.buffer.data(), request.buffer.size(),
                                static_cast<off_t>(request.offset));
    done_.push_back({request.id, got >= 0 ? got : -errno});
    return {};
  }
  Result<std::vector<RawCompletion>> do_reap(std::chrono::milliseconds) override {
    return std::exchange(done_, {});
  }
  void do_cancel(std::uint64_t) noexcept override {}

 private:
  std::vector<RawCompletion> done_;
};

}  // namespace

std::unique_ptr<ReadBackend> make_pread_backend() { return std::make_unique<PreadBackend>(); }

}  // namespace andiron::stream
