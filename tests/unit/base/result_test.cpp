// SPDX-License-Identifier: MIT
#include "agent/base/result.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "agent/base/mapped_region.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return make_error(Errc::bad_request, "odd");
  return value / 2;
}

Result<std::unique_ptr<int>> quarter(int value) {
  const int once = TRY(half(value));
  return std::make_unique<int>(TRY(half(once)));
}

Result<void> check_even(int value) {
  TRY(half(value));
  return {};
}

TEST(Result, TryPassesValuesAndErrors) {
  EXPECT_EQ(**quarter(8), 2);
  const auto failed = quarter(6);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().errc(), Errc::bad_request);
  EXPECT_TRUE(check_even(2).has_value());
  EXPECT_FALSE(check_even(3).has_value());
}

TEST(Result, WrapReadsFromTheOutsideIn) {
  const auto failed = half(3).wrap("load model 'x'");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message(), "load model 'x': odd: bad request");
}

TEST(Error, SystemErrorsMapToApiCodes) {
  EXPECT_EQ(make_system_error(ENOENT, "").errc(), Errc::source_not_found);
  EXPECT_EQ(make_system_error(EACCES, "").errc(), Errc::permission_denied);
  EXPECT_EQ(make_system_error(EIO, "").errc(), Errc::io_error);
  EXPECT_EQ(error_name(Errc::lock_limit), "lock_limit");
}

TEST(UniqueFd, MovesOwnership) {
  UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  UniqueFd second(std::move(first));
  EXPECT_EQ(second.get(), number);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  second = UniqueFd();
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST(MappedRegion, MovesOwnership) {
  auto region = MappedRegion::map_anonymous(4096);
  ASSERT_TRUE(region.has_value());
  region->data()[4095] = std::byte{7};
  MappedRegion other = std::move(*region);
  EXPECT_EQ(other.data()[4095], std::byte{7});
  EXPECT_FALSE(*region);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace andiron
