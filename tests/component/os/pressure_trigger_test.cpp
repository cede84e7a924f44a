// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>

#include "agent/os/pressure.hpp"

namespace andiron::os {
namespace {

using std::chrono::milliseconds;

TEST(PressureTrigger, IsArmedAndQuiet) {
  const Result<UniqueFd> trigger =
      arm_pressure_trigger("memory", milliseconds(150), milliseconds(2000));
  if (!trigger && trigger.error().errc() == Errc::unavailable) {
    GTEST_SKIP() << trigger.error().message();
  }
  ASSERT_TRUE(trigger) << trigger.error().message();
  pollfd poll_fd{trigger->get(), POLLPRI, 0};
  ASSERT_GE(::poll(&poll_fd, 1, 0), 0);
  // POLLERR is what an fd that was never armed gives.
  EXPECT_EQ(poll_fd.revents & POLLERR, 0);
}

TEST(PressureTrigger, SaysNoToWhatTheKernelRefuses) {
  if (!read_pressure("memory")) GTEST_SKIP() << read_pressure("memory").error().message();
  // Windows are 500 ms to 10 s.
  EXPECT_FALSE(arm_pressure_trigger("memory", milliseconds(150), milliseconds(20'000)));
  EXPECT_FALSE(arm_pressure_trigger("nothing", milliseconds(150), milliseconds(2000)));
}

}  // namespace
}  // namespace andiron::os
