// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <fstream>

#include "agent/os/memory.hpp"
#include "tests/component/tier/fill_fixture.hpp"

namespace andiron::testing {
namespace {

using tier::FillOutcome;

/// It takes the page cache from the whole machine, hence not a component test.
bool drop_caches() {
  ::sync();
  std::ofstream file("/proc/sys/vm/drop_caches");
  file << "1" << std::flush;
  return file.good();
}

TEST_F(FillTest, HeldFilesSurviveDropCachesAndOthersDoNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "drop_caches needs root";
  const std::uint64_t size = 64 * kMiB + 100;
  const Path locked = cold_file("locked", size);
  const Path mapped = cold_file("mapped", size);
  const Path cached = cold_file("cached", size);
  const std::uint64_t mlocked = os::read_memory().value().mlocked;
  const FillOutcome first = fill(request_for({locked}, Hold::locked));
  const FillOutcome second = fill(request_for({mapped}, Hold::mapped));
  const FillOutcome third = fill(request_for({cached}, Hold::cached));
  if (first.lock_limit) GTEST_SKIP() << *first.lock_limit;
  EXPECT_EQ(size, resident(cached));
  if (!drop_caches()) GTEST_SKIP() << "/proc/sys/vm/drop_caches cannot be written to";
  EXPECT_EQ(size, resident(locked));
  EXPECT_EQ(size, resident(mapped));
  EXPECT_EQ(0U, resident(cached));
  // Others lock and unlock, too: some of it is proof enough.
  EXPECT_GE(os::read_memory().value().mlocked, mlocked + size / 2);
}

}  // namespace
}  // namespace andiron::testing
