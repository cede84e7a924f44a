// SPDX-License-Identifier: MIT
#include "agent/tier/pinned_store.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "agent/base/units.hpp"

namespace andiron::tier {
namespace {

class PinnedStoreTest : public ::testing::Test {
 protected:
  static FillFile file(std::uint64_t ino, std::uint64_t size = 10, std::int64_t ctime = 1) {
    return {"/m/" + std::to_string(ino), {1, ino, size, 1, ctime}};
  }
  static PinnedFile copy_of(const FillFile& file) {
    PinnedFile copy;
    copy.path = file.path;
    copy.identity = file.identity;
    copy.fd = UniqueFd(::memfd_create("copy", MFD_CLOEXEC));
    return copy;
  }
  /// As a job does it, of which nothing is left over.
  void hold(const std::string& model, const FillFile& file) {
    auto reserved = store_.reserve({file});
    ASSERT_TRUE(reserved) << reserved.error().message();
    auto node = reserved->extract(key_of(file.identity));
    superfluous_ = store_.commit(model, copy_of(file),
                                 node.empty() ? Reservation() : std::move(node.mapped()));
  }

  Ledger ledger_{100};
  PinnedStore store_{ledger_};
  std::optional<PinnedFile> superfluous_;
};

TEST_F(PinnedStoreTest, AFileCountsOnceHoweverManyModelsHoldIt) {
  hold("a", file(1));
  EXPECT_EQ(10U, ledger_.used());
  hold("b", file(1));
  EXPECT_EQ(10U, ledger_.used());
  EXPECT_TRUE(superfluous_) << "the second handle on the one copy comes back";
  EXPECT_EQ(10U, store_.bytes());
  EXPECT_EQ((std::set<std::string>{"a", "b"}), store_.models());
  EXPECT_TRUE(store_.release("a").empty()) << "b holds it";
  EXPECT_EQ(10U, ledger_.used());
  EXPECT_EQ(0U, store_.bytes_of("a", {key_of(file(1).identity)}));
  EXPECT_EQ(10U, store_.bytes_of("b", {key_of(file(1).identity)}));
  EXPECT_EQ(1U, store_.release("b").size());
  EXPECT_EQ(0U, ledger_.used());
}

TEST_F(PinnedStoreTest, WhatDoesNotFitSetsNothingAside) {
  hold("a", file(1, 60));
  const auto reserved = store_.reserve({file(2, 30), file(3, 20)});
  ASSERT_FALSE(reserved);
  EXPECT_EQ(Errc::no_budget, reserved.error().errc());
  EXPECT_EQ(60U, ledger_.used());
}

TEST_F(PinnedStoreTest, AFileTwiceInAModelIsReservedOnce) {
  const auto reserved = store_.reserve({file(1, 60), file(1, 60)});
  ASSERT_TRUE(reserved);
  EXPECT_EQ(60U, ledger_.used());
}

TEST_F(PinnedStoreTest, NewContentTakesThePlaceOfTheOld) {
  hold("a", file(1, 10, 1));
  hold("a", file(1, 20, 2));
  ASSERT_TRUE(superfluous_);
  EXPECT_EQ(10U, superfluous_->identity.size);
  EXPECT_EQ(20U, ledger_.used());
  EXPECT_EQ((std::set<std::string>{copy_name(file(1, 20, 2).identity)}), store_.copy_names());
}

TEST_F(PinnedStoreTest, ForgottenItIsNobodys) {
  hold("a", file(1));
  hold("b", file(1));
  EXPECT_TRUE(store_.forget(key_of(file(1).identity)));
  EXPECT_FALSE(store_.forget(key_of(file(1).identity)));
  EXPECT_EQ(0U, ledger_.used());
  EXPECT_TRUE(store_.release("a").empty());
  EXPECT_EQ(nullptr, store_.find(key_of(file(1).identity)));
}

TEST_F(PinnedStoreTest, SealsOnlyTheContentThatWasSummedUp) {
  hold("a", file(1, 10, 2));
  store_.sealed(file(1, 10, 1).identity);
  EXPECT_FALSE(store_.find(key_of(file(1).identity))->sealed);
  store_.sealed(file(1, 10, 2).identity);
  EXPECT_TRUE(store_.find(key_of(file(1).identity))->sealed);
}

}  // namespace
}  // namespace andiron::tier
