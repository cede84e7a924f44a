// SPDX-License-Identifier: MIT
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdio>
#include <optional>
#include <string>

#include "agent/os/memory.hpp"
#include "tests/component/tier/fill_fixture.hpp"

namespace andiron::testing {
namespace {

using tier::FillOutcome;

/// Runs `body` in a child, which says what is wrong on stderr; true when nothing is.
template <class Body>
bool in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string complaint = body();
    if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
    ::_exit(complaint.empty() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

bool drop_ipc_lock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, &data) != 0) return false;
  data[0].effective &= ~(1U << CAP_IPC_LOCK);
  return ::syscall(SYS_capset, &header, &data) == 0;
}

bool limit_memlock(std::uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  return ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && drop_ipc_lock();
}

TEST_F(FillTest, LockedIsLockedWithTheLastPage) {
  const std::uint64_t size = 2 * kMiB + 100;
  const auto limit = os::memlock_limit();
  if (limit && *limit < 2 * size) GTEST_SKIP() << "RLIMIT_MEMLOCK is " << *limit << " bytes";
  const Path path = cold_file("model", size);
  make_resident(path, 0, 64 * kKiB);  // what was there before is to be locked, too
  const FillOutcome outcome = fill(request_for({path}, Hold::locked));
  EXPECT_FALSE(outcome.error);
  EXPECT_FALSE(outcome.lock_limit);
  ASSERT_EQ(1U, outcome.held.size());
  EXPECT_EQ(Hold::locked, outcome.held[0].hold);
  EXPECT_EQ(size, outcome.held[0].locked_bytes);
  EXPECT_EQ(size, resident(path));
}

TEST_F(FillTest, ALockLimitLetsSomeBeLockedAndAllBeMapped) {
  const Path path = cold_file("model", 10 * kMiB);
  const std::uint64_t limit = kMiB + 12 * kKiB;
  EXPECT_TRUE(in_child([&]() -> std::string {
    if (!limit_memlock(limit)) return "setrlimit or capset";
    const FillOutcome outcome = fill(request_for({path}, Hold::locked));
    if (outcome.error) return outcome.error->message();
    if (!outcome.lock_limit) return "no lock_limit";
    if (outcome.lock_limit->find("1.0 MiB of 10 MiB locked") == std::string::npos) {
      return *outcome.lock_limit;
    }
    const tier::HeldFile& held = outcome.held.at(0);
    if (held.hold != Hold::mapped) return "hold";
    if (held.locked_bytes != limit) return std::to_string(held.locked_bytes) + " locked";
    if (held.resident_bytes != 10 * kMiB) return "not all resident";
    make_cold(path, 0, 0);
    return resident(path) == 10 * kMiB ? "" : "not held";
  }));
}

TEST_F(FillTest, WithoutAnyRightToLockAllIsMapped) {
  const Path path = cold_file("model", 3 * kMiB);
  EXPECT_TRUE(in_child([&]() -> std::string {
    if (!limit_memlock(0)) return "setrlimit or capset";
    const FillOutcome outcome = fill(request_for({path}, Hold::locked));
    if (outcome.error) return outcome.error->message();
    if (!outcome.lock_limit) return "no lock_limit";
    const tier::HeldFile& held = outcome.held.at(0);
    return held.hold == Hold::mapped && held.locked_bytes == 0 ? "" : "hold";
  }));
}

}  // namespace
}  // namespace andiron::testing
