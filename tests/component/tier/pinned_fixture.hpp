// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/units.hpp"
#include "agent/os/device.hpp"
#include "agent/os/residency.hpp"
#include "agent/stream/engine.hpp"
#include "agent/tier/pinned_ram.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::testing {

/// Sources on a real disk, copies in a folder of the machine's own tmpfs.
class PinnedTest : public ::testing::Test {
 protected:
  using Path = std::filesystem::path;

  PinnedTest() {
    std::string pattern = "/dev/shm/andiron-test-XXXXXX";
    store_ = ::mkdtemp(pattern.data());
    use_store(store_);
  }
  ~PinnedTest() override {
    folder_.reset();
    std::filesystem::remove_all(store_);
  }

  void use_store(const Path& root) {
    os::PinnedMount mount;
    mount.root = UniqueFd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    folder_ = std::make_shared<const tier::PinnedFolder>(
        tier::PinnedFolder::open(std::move(mount), root.string()).value());
  }

  static tier::FillFile file_of(const Path& path) {
    return {path.string(), os::stat_path(path.string()).value().identity};
  }

  static void make_cold(const Path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(0, ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
  }

  static std::uint64_t resident(const Path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return os::read_residency(fd.get(), std::filesystem::file_size(path))
        .resident_bytes.value_or(~std::uint64_t{0});
  }

  tier::PinnedRequest request_for(const std::vector<Path>& paths) const {
    tier::PinnedRequest request;
    request.job = 7;
    request.folder = folder_;
    for (const Path& path : paths)
      request.files.push_back(file_of(path));
    return request;
  }

  static os::DeviceTraits device_of(const Path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return os::device_traits(fd.get()).value();
  }

  tier::PinnedOutcome fill(tier::PinnedRequest request) {
    const os::DeviceTraits device = device_of(Path(request.files.at(0).path).parent_path());
    const Result<void> submitted =
        engine_.submit(device, tier::make_pinned_task(std::move(request), control_, done_));
    EXPECT_TRUE(submitted) << submitted.error().message();
    return outcome();
  }

  /// On this thread, with reads of the test's own.
  tier::PinnedOutcome fill_with(tier::PinnedRequest request, stream::ReadBackend& reads) {
    const os::DeviceTraits device = device_of(Path(request.files.at(0).path).parent_path());
    stream::RateLimiter limiter(0);
    stream::LaneContext lane{device, reads, limiter, clock_};
    tier::make_pinned_task(std::move(request), control_, done_)->run(lane);
    return outcome();
  }

  tier::PinnedOutcome outcome() {
    pollfd ready{done_->fd(), POLLIN, 0};
    EXPECT_EQ(1, ::poll(&ready, 1, 120000)) << "no outcome within two minutes";
    std::vector<tier::PinnedOutcome> all = done_->drain();
    EXPECT_EQ(1U, all.size());
    return all.empty() ? tier::PinnedOutcome{} : std::move(all.front());
  }

  /// Whole, and the source's bytes, as who opens it sees it.
  void expect_copy(const tier::PinnedFile& held, const Path& source) {
    ASSERT_TRUE(folder_->set_names("model", {{"file", held.identity}}));
    const Path copy = Path(folder_->path_of("model")) / "file";
    ASSERT_EQ(std::filesystem::file_size(source), std::filesystem::file_size(copy));
    EXPECT_TRUE(bytes_of(source) == bytes_of(copy)) << source << " and its copy differ";
  }

  std::vector<std::string> left_in_store() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(store_ / ".copies"))
      names.push_back(entry.path().filename().string());
    return names;
  }

  TempDir dir_;
  Path store_;
  SystemClock clock_;
  std::shared_ptr<const tier::PinnedFolder> folder_;
  std::shared_ptr<stream::TransferControl> control_ =
      std::make_shared<stream::TransferControl>(std::nullopt);
  std::shared_ptr<Mailbox<tier::PinnedOutcome>> done_ =
      std::make_shared<Mailbox<tier::PinnedOutcome>>(
          Mailbox<tier::PinnedOutcome>::create().value());
  stream::Engine engine_{{}, clock_};
};

}  // namespace andiron::testing
