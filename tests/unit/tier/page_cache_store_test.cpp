// SPDX-License-Identifier: MIT
#include "agent/tier/page_cache_store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace andiron::tier {
namespace {

os::FileIdentity identity(std::uint64_t ino, std::uint64_t size = 100, std::int64_t ctime = 1) {
  return {1, ino, size, 1, ctime};
}

HeldFile file(std::uint64_t ino, Hold hold) {
  HeldFile held;
  held.identity = identity(ino);
  held.hold = hold;
  held.locked_bytes = hold == Hold::locked ? 100 : 0;
  if (hold >= Hold::mapped) held.fd = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return held;
}

/// Reserves and commits one file for a model, as a job does.
std::optional<HeldFile> hold(PageCacheStore& store, const std::string& model, std::uint64_t ino,
                             Hold how) {
  auto reserved = store.reserve({{"", identity(ino)}}, how);
  EXPECT_TRUE(reserved.has_value());
  auto node = reserved->extract({1, ino});
  return store.commit(model, file(ino, how), how,
                      node.empty() ? Reservation() : std::move(node.mapped()));
}

struct Fixture : ::testing::Test {
  Ledger ledger{1000};
  PageCacheStore store{ledger};
};
using Store = Fixture;

TEST_F(Store, CountsASharedFileOnce) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::mapped));
  EXPECT_EQ(ledger.used(), 100u);
  EXPECT_TRUE(hold(store, "b", 7, Hold::mapped));  // the one mapping or the other is spare
  EXPECT_EQ(ledger.used(), 100u);
  EXPECT_TRUE(store.release("a").empty());
  EXPECT_EQ(ledger.used(), 100u);
  EXPECT_EQ(store.release("b").size(), 1u);
  EXPECT_EQ(ledger.used(), 0u);
}

TEST_F(Store, CachedTakesNoBudget) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::cached));
  EXPECT_EQ(ledger.used(), 0u);
  EXPECT_EQ(store.hold_of("a", {{1, 7}}), Hold::cached);
}

TEST_F(Store, TheMostDemandingModelDecides) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::locked));
  const auto spare = hold(store, "b", 7, Hold::cached);
  ASSERT_TRUE(spare);
  EXPECT_EQ(spare->hold, Hold::cached);
  EXPECT_EQ(store.find({1, 7})->hold, Hold::locked);
  EXPECT_EQ(store.locked_bytes(), 100u);
  // The demanding one goes: its mapping does too, and its budget.
  const auto firm = store.release("a");
  ASSERT_EQ(firm.size(), 1u);
  EXPECT_EQ(firm[0].hold, Hold::locked);
  EXPECT_EQ(store.find({1, 7})->hold, Hold::cached);
  EXPECT_EQ(ledger.used(), 0u);
}

TEST_F(Store, AWeakerHoldReplacesAFirmerOneWhenAsked) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::locked));
  const auto old = hold(store, "a", 7, Hold::mapped);
  ASSERT_TRUE(old);
  EXPECT_EQ(old->hold, Hold::locked);
  EXPECT_EQ(store.find({1, 7})->hold, Hold::mapped);
  EXPECT_EQ(ledger.used(), 100u);
}

TEST_F(Store, APartialHoldDoesNotDisplaceAWholeOne) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::locked));
  // "b" wanted it locked too, and its own fill met the lock limit.
  const auto spare = store.commit("b", file(7, Hold::mapped), Hold::locked, Reservation());
  ASSERT_TRUE(spare);
  EXPECT_EQ(spare->hold, Hold::mapped);
  EXPECT_EQ(store.find({1, 7})->hold, Hold::locked);
}

TEST_F(Store, NewContentReplacesOld) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::locked));
  HeldFile fresh = file(7, Hold::mapped);
  fresh.identity = identity(7, 100, 2);
  const auto old = store.commit("a", std::move(fresh), Hold::locked, Reservation());
  ASSERT_TRUE(old);
  EXPECT_EQ(old->identity.ctime_ns, 1);
}

TEST_F(Store, DemotesToCachedUnlessSomebodyElseWantsMore) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::mapped));
  EXPECT_TRUE(hold(store, "b", 7, Hold::mapped));
  EXPECT_TRUE(store.demote_to_cached("a").empty());
  EXPECT_EQ(ledger.used(), 100u);
  EXPECT_EQ(store.demote_to_cached("b").size(), 1u);
  EXPECT_EQ(ledger.used(), 0u);
  EXPECT_EQ(store.hold_of("b", {{1, 7}}), Hold::cached);
}

TEST_F(Store, ForgetsAChangedFileForEverybody) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::mapped));
  EXPECT_TRUE(store.forget({1, 7}));
  EXPECT_FALSE(store.forget({1, 7}));
  EXPECT_EQ(store.hold_of("a", {{1, 7}}), std::nullopt);
  EXPECT_EQ(ledger.used(), 0u);
}

TEST_F(Store, ReservesAllOrNothing) {
  EXPECT_FALSE(hold(store, "a", 1, Hold::mapped));
  std::vector<FillFile> many;
  for (std::uint64_t ino = 2; ino < 12; ++ino)
    many.push_back({"", identity(ino)});
  const auto refused = store.reserve(many, Hold::mapped);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().errc(), Errc::no_budget);
  EXPECT_EQ(ledger.used(), 100u);
}

TEST_F(Store, AModelsOwnMappingsAreNotInItsOwnWay) {
  for (const char* model : {"a", "b"}) {
    const std::uint64_t ino = model[0] == 'a' ? 1 : 2;
    HeldFile mapped = file(ino, Hold::mapped);
    mapped.resident_bytes = 100;
    EXPECT_FALSE(store.commit(model, std::move(mapped), Hold::mapped, Reservation()));
  }
  EXPECT_EQ(store.mapped_bytes_beside("a"), 100u);
  EXPECT_EQ(store.mapped_bytes_beside("c"), 200u);
}

TEST_F(Store, CountsWhatIsHeldAsProtected) {
  EXPECT_FALSE(hold(store, "a", 7, Hold::protected_));
  const std::uint64_t one = store.find({1, 7})->identity.size;
  EXPECT_FALSE(hold(store, "b", 8, Hold::locked));
  EXPECT_EQ(store.protected_bytes(), one);
}

}  // namespace
}  // namespace andiron::tier
