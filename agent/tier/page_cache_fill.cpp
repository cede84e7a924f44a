// SPDX-License-Identifier: MIT
#include <fcntl.h>

#include <memory>
#include <system_error>
#include <utility>

#include "agent/base/check.hpp"
#include "agent/os/path_opener.hpp"
#include "agent/os/residency.hpp"
#include "agent/tier/file_fill.hpp"
#include "agent/tier/page_cache.hpp"

namespace andiron::tier {
namespace {

class FillTask final : public stream::LaneTask {
 public:
  FillTask(FillRequest request, std::shared_ptr<stream::TransferControl> control,
           std::shared_ptr<Mailbox<FillOutcome>> done)
      : request_(std::move(request)), control_(std::move(control)), done_(std::move(done)) {
    outcome_.job = request_.job;
    for (const FillFile& file : request_.files)
      control_->add_total(file.identity.size);
  }

  void run(stream::LaneContext& lane) noexcept override {
    // The task owns it: what the kernel does not give back stays with the task (LaneTask::run).
    reads_ = std::make_unique<BufferedReads>(lane.reads);
    if (request_.hold == Hold::protected_ && !request_.protection) {
      outcome_.lock_limit =
          "hold protected is not to be had here, falling back to mapped: " + request_.unprotected;
      request_.hold = Hold::mapped;
    }
    FillRun run{request_, lane, *control_, *reads_, outcome_};
    for (const FillFile& file : request_.files) {
      if (!fill_one(run, file)) break;
    }
    report();
  }

  Priority priority() const noexcept override { return request_.priority; }

  void abandon() noexcept override {
    outcome_.error = make_error(Errc::cancelled, "the agent stops");
    report();
  }

 private:
  /// False when the files after this one are not to be tried.
  bool fill_one(FillRun& run, const FillFile& file) {
    FileFill fill(run, file);
    Result<void> status = run.control.check(run.lane.clock.now()).wrap(file.path);
    if (status) status = fill.fill();
    if (status || status.error().errc() == Errc::no_headroom) {
      run.mapped_unlocked += fill.mapped_unlocked();
      outcome_.held.push_back(std::move(fill).take());
    }
    if (status) return true;
    const Errc code = status.error().errc();
    if (!outcome_.error) outcome_.error = std::move(status).error();
    return !ends_all(code);
  }

  void report() {
    CHECK(done_ != nullptr);  // once
    std::exchange(done_, nullptr)->push(std::move(outcome_));
  }

  FillRequest request_;
  std::shared_ptr<stream::TransferControl> control_;
  std::shared_ptr<Mailbox<FillOutcome>> done_;
  FillOutcome outcome_;
  std::unique_ptr<BufferedReads> reads_;
};

}  // namespace

std::unique_ptr<stream::LaneTask> make_fill_task(FillRequest request,
                                                 std::shared_ptr<stream::TransferControl> control,
                                                 std::shared_ptr<Mailbox<FillOutcome>> done) {
  return std::make_unique<FillTask>(std::move(request), std::move(control), std::move(done));
}

Result<std::optional<std::uint64_t>> give_pages_back(const std::string& path,
                                                     const os::FileIdentity& identity) {
  const UniqueFd fd = TRY(os::PathOpener().open_regular(path));
  const os::FileInfo info = TRY(os::stat_fd(fd.get()).wrap(path));
  if (info.identity.dev != identity.dev || info.identity.ino != identity.ino) {
    return make_error(Errc::stale, path + ": another file has its place");
  }
  const int error = ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (error != 0) return make_system_error(error, path + ": posix_fadvise");
  return os::read_residency(fd.get(), info.identity.size).resident_bytes;
}

}  // namespace andiron::tier
