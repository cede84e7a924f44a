// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/units.hpp"
#include "agent/os/device.hpp"
#include "agent/os/file.hpp"
#include "agent/os/residency.hpp"
#include "agent/stream/engine.hpp"
#include "agent/tier/page_cache.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::testing {

/// Files on a real disk, and fills of them on a lane of their own.
class FillTest : public ::testing::Test {
 protected:
  using Path = std::filesystem::path;

  /// A file that is not in the page cache.
  Path cold_file(std::string_view name, std::uint64_t bytes) const {
    const Path path = dir_.write_random(name, bytes);
    make_cold(path, 0, 0);
    return path;
  }

  /// `length` 0 is to the end. The file must not be dirty.
  static void make_cold(const Path& path, std::uint64_t offset, std::uint64_t length) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(0, ::posix_fadvise(fd.get(), static_cast<off_t>(offset), static_cast<off_t>(length),
                                 POSIX_FADV_DONTNEED));
  }

  static void make_warm(const Path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::vector<char> buffer(kMiB);
    while (::read(fd.get(), buffer.data(), buffer.size()) > 0) {
    }
  }

  static std::uint64_t resident(const Path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return os::read_residency(fd.get(), std::filesystem::file_size(path))
        .resident_bytes.value_or(~std::uint64_t{0});
  }

  static tier::FillFile file_of(const Path& path) {
    return {path.string(), os::stat_path(path.string()).value().identity};
  }

  static tier::FillRequest request_for(const std::vector<Path>& paths, Hold hold) {
    tier::FillRequest request;
    request.job = 7;
    request.hold = hold;
    for (const Path& path : paths)
      request.files.push_back(file_of(path));
    return request;
  }

  static os::DeviceTraits device_of(const Path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return os::device_traits(fd.get()).value();
  }

  /// Runs a fill on a lane of an engine and waits for its outcome.
  tier::FillOutcome fill(tier::FillRequest request) {
    start(std::move(request));
    return outcome();
  }

  void start(tier::FillRequest request, std::optional<os::DeviceTraits> device = std::nullopt) {
    if (!device) device = device_of(dir_.path());
    const Result<void> submitted =
        engine_.submit(*device, tier::make_fill_task(std::move(request), control_, done_));
    ASSERT_TRUE(submitted) << submitted.error().message();
  }

  /// On this thread, with reads of the test's own.
  tier::FillOutcome fill_with(tier::FillRequest request, stream::ReadBackend& reads) {
    const os::DeviceTraits device = device_of(dir_.path());
    stream::RateLimiter limiter(0);
    stream::LaneContext lane{device, reads, limiter, clock_};
    tier::make_fill_task(std::move(request), control_, done_)->run(lane);
    return outcome();
  }

  /// Until the task found the file, which must have some resident page to show that.
  void wait_until_located() const {
    while (control_->done() == 0)
      std::this_thread::yield();
  }

  /// Makes some of a cold file resident: exactly these pages, and nothing around them.
  static void make_resident(const Path& path, std::uint64_t offset, std::uint64_t length) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
    std::vector<char> buffer(length);
    ASSERT_EQ(static_cast<ssize_t>(length),
              ::pread(fd.get(), buffer.data(), length, static_cast<off_t>(offset)));
  }

  tier::FillOutcome outcome() {
    pollfd ready{done_->fd(), POLLIN, 0};
    EXPECT_EQ(1, ::poll(&ready, 1, 60000)) << "no outcome within a minute";
    std::vector<tier::FillOutcome> all = done_->drain();
    EXPECT_EQ(1U, all.size());
    return all.empty() ? tier::FillOutcome{} : std::move(all.front());
  }

  TempDir dir_;
  SystemClock clock_;
  std::shared_ptr<stream::TransferControl> control_ =
      std::make_shared<stream::TransferControl>(std::nullopt);
  std::shared_ptr<Mailbox<tier::FillOutcome>> done_ =
      std::make_shared<Mailbox<tier::FillOutcome>>(Mailbox<tier::FillOutcome>::create().value());
  stream::Engine engine_{{}, clock_};
};

}  // namespace andiron::testing
