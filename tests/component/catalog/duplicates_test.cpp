// SPDX-License-Identifier: MIT
#include "agent/catalog/duplicates.hpp"

#include <chrono>

#include "tests/component/catalog/catalog_fixture.hpp"

namespace andiron::catalog {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using DuplicatesTest = CatalogTest;

constexpr std::uint64_t kSize = 3 << 20;

TEST_F(DuplicatesTest, CopiesArePointedOutAndCounted) {
  dir_.write_random("a/x.bin", kSize);
  dir_.write_random("a/y.bin", kSize);  // the same bytes
  const auto resolved = find(path("a"));
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->bytes, 2 * kSize);
  EXPECT_THAT(resolved->notes, ElementsAre(HasSubstr("y.bin looks like a copy of")));
}

TEST_F(DuplicatesTest, DifferentFilesOfOneSizeAreNot) {
  dir_.write_random("a/x.bin", kSize);
  std::string other(kSize, 'x');
  write("a/y.bin", other);
  other.back() = 'y';
  write("a/z.bin", other);
  const auto resolved = find(path("a"));
  ASSERT_TRUE(resolved);
  EXPECT_THAT(resolved->notes, IsEmpty());
}

TEST_F(DuplicatesTest, ModelsThatShareAFile) {
  dir_.write_random("x.bin", kSize);
  std::filesystem::create_hard_link(path("x.bin"), path("y.bin"));
  const auto first = find(path("x.bin"));
  const auto second = find(path("y.bin"));
  ASSERT_TRUE(first && second);
  EXPECT_THAT(find_duplicates({&*first, &*second}), ElementsAre(HasSubstr("it counts once")));
}

TEST_F(DuplicatesTest, AFileThatChangedIsLeftOut) {
  dir_.write_random("x.bin", kSize);
  dir_.write_random("y.bin", kSize);
  const auto first = find(path("x.bin"));
  const auto second = find(path("y.bin"));
  ASSERT_TRUE(first && second);
  EXPECT_THAT(find_duplicates({&*first, &*second}), ElementsAre(HasSubstr("looks like a copy")));
  // The same bytes still, but what tells of a change has changed.
  std::filesystem::last_write_time(
      path("y.bin"), std::filesystem::last_write_time(path("y.bin")) - std::chrono::hours(1));
  EXPECT_THAT(find_duplicates({&*first, &*second}), IsEmpty());
}

}  // namespace
}  // namespace andiron::catalog
