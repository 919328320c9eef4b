#include "batch/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "unit/batch/item.h"

namespace gradus::batch {
namespace {

using config::Tier;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr std::uint64_t kMany = 1 << 30;

class QueueTest : public ::testing::Test {
 protected:
  Queue& make(QueueLimits limits) { return queue_.emplace_back(limits); }
  Item& item(int id, Tier tier = Tier::kStandard, TimePoint deadline = TimePoint::max(),
             std::uint64_t bytes = 1) {
    Item& item = items_.emplace_back(id, tier, deadline);
    item.bytes = bytes;
    return item;
  }
  void TearDown() override {
    for (Queue& queue : queue_) queue.drain();
  }

 private:
  std::deque<Item> items_;
  std::deque<Queue> queue_;
};

TEST_F(QueueTest, OrdersByTierThenDeadlineThenArrival) {
  Queue& queue = make({});
  queue.push(item(1, Tier::kBatch, at(1s)), at(0s), 0);
  queue.push(item(2, Tier::kStandard, at(9s)), at(0s), 0);
  queue.push(item(3, Tier::kRealtime), at(0s), 0);
  queue.push(item(4, Tier::kStandard, at(5s)), at(0s), 0);
  queue.push(item(5, Tier::kStandard, at(9s)), at(0s), 0);
  queue.push(item(6, Tier::kRealtime), at(0s), 0);
  EXPECT_THAT(order(queue, at(0s)), ElementsAre(3, 6, 4, 2, 5, 1));
  EXPECT_EQ(static_cast<Item*>(queue.first(at(0s)))->id, 3);
}

TEST_F(QueueTest, AnEntryRisesOneTierAfterEachAgeingAndNotBefore) {
  Queue& queue = make({.ageing = 1s});
  queue.push(item(1, Tier::kBatch, at(50s)), at(0s), 0);
  queue.push(item(2, Tier::kStandard, at(90s)), at(999ms), 0);
  queue.push(item(3, Tier::kRealtime, at(90s)), at(999ms), 0);
  EXPECT_THAT(order(queue, at(1s - 1ns)), ElementsAre(3, 2, 1));
  EXPECT_THAT(order(queue, at(1s)), ElementsAre(3, 1, 2)) << "as standard, by its deadline";
  EXPECT_THAT(order(queue, at(1999ms - 1ns)), ElementsAre(3, 1, 2));
  EXPECT_THAT(order(queue, at(1999ms)), ElementsAre(2, 3, 1)) << "2 counts as realtime";
  EXPECT_THAT(order(queue, at(2s - 1ns)), ElementsAre(2, 3, 1));
  EXPECT_THAT(order(queue, at(2s)), ElementsAre(1, 2, 3)) << "1 too, and by its deadline";
}

TEST_F(QueueTest, AgeingIsTheSameHoweverSeldomItIsLookedAt) {
  Queue& queue = make({.ageing = 1s});
  queue.push(item(1, Tier::kBatch, at(50s)), at(0s), 0);
  queue.push(item(2, Tier::kRealtime, at(60s)), at(1s), 0);
  queue.push(item(3, Tier::kBatch, at(40s)), at(1500ms), 0);
  EXPECT_THAT(order(queue, at(2600ms)), ElementsAre(1, 2, 3));
  EXPECT_THAT(order(queue, at(3500ms)), ElementsAre(3, 1, 2));
}

TEST_F(QueueTest, WhatIsLateGoesBehindThoseOfItsTierThatAreNot) {
  Queue& queue = make({.ageing = 1s});
  Item& late = item(1, Tier::kStandard, at(2s));
  late.due = at(100ms);
  Item& late_as_well = item(2, Tier::kStandard, at(1s));
  late_as_well.due = at(200ms);
  queue.push(late, at(0s), 0);
  queue.push(late_as_well, at(0s), 0);
  queue.push(item(3, Tier::kStandard, at(9s)), at(0s), 0);
  queue.push(item(4, Tier::kBatch, at(1s)), at(0s), 0);
  EXPECT_THAT(order(queue, at(100ms - 1ns)), ElementsAre(2, 1, 3, 4));
  EXPECT_THAT(order(queue, at(100ms)), ElementsAre(2, 3, 1, 4));
  EXPECT_THAT(order(queue, at(200ms)), ElementsAre(3, 2, 1, 4)) << "both, by their deadlines";
  queue.push(item(5, Tier::kStandard, at(9s)), at(300ms), 0);
  EXPECT_THAT(order(queue, at(300ms)), ElementsAre(3, 5, 2, 1, 4));
}

TEST_F(QueueTest, WhatIsLateRisesAllTheSameAndIsNotLateForEver) {
  Queue& queue = make({.ageing = 1s});
  Item& late = item(1, Tier::kStandard, at(5s));
  late.due = at(100ms);
  queue.push(late, at(0s), 0);
  queue.push(item(2, Tier::kStandard, at(9s)), at(500ms), 0);
  queue.push(item(3, Tier::kRealtime, at(9s)), at(500ms), 0);
  EXPECT_THAT(order(queue, at(1s - 1ns)), ElementsAre(3, 2, 1));
  EXPECT_THAT(order(queue, at(1s)), ElementsAre(3, 1, 2)) << "last of tier realtime";
  EXPECT_THAT(order(queue, at(1100ms - 1ns)), ElementsAre(3, 1, 2));
  EXPECT_THAT(order(queue, at(1100ms)), ElementsAre(1, 3, 2)) << "late for one ageing";
}

TEST_F(QueueTest, LatenessIsTheSameHoweverSeldomItIsLookedAt) {
  Queue& queue = make({.ageing = 1s});
  Item& long_ago = item(1, Tier::kRealtime, at(5s));
  long_ago.due = at(100ms);
  Item& late = item(2, Tier::kRealtime, at(4s));
  late.due = at(1500ms);
  queue.push(long_ago, at(0s), 0);
  queue.push(late, at(0s), 0);
  queue.push(item(3, Tier::kRealtime, at(9s)), at(0s), 0);
  EXPECT_THAT(order(queue, at(2s)), ElementsAre(1, 3, 2));
}

TEST_F(QueueTest, WhatWaitsAgainIsLateAtOnceWhereItWasDue) {
  Queue& queue = make({.ageing = 1s});
  Item& again = item(1, Tier::kRealtime, at(5s));
  again.due = at(100ms);
  queue.push(again, at(0s), 0);
  queue.push(item(2, Tier::kRealtime, at(9s)), at(0s), 0);
  queue.remove(again);
  ASSERT_THAT(order(queue, at(200ms)), ElementsAre(2));
  queue.push_anyway(again, at(200ms));
  EXPECT_THAT(order(queue, at(200ms)), ElementsAre(2, 1));
}

TEST_F(QueueTest, BoundsHowManyOfAPriorityWait) {
  Queue& queue = make({.entries = 9});
  const auto push = [&](int id, std::uint64_t priority, std::uint32_t most, std::uint32_t idle) {
    Item& one = item(id, Tier::kStandard);
    one.priority = priority;
    one.most_of_priority = most;
    const Queue::Pushed pushed = queue.push(one, at(0s), idle);
    EXPECT_NE(pushed.taken, pushed.priority_full) << id;
    return pushed.taken;
  };
  EXPECT_TRUE(push(1, 3, 2, 0));
  EXPECT_TRUE(push(2, 3, 2, 0));
  EXPECT_FALSE(push(3, 3, 2, 0));
  EXPECT_TRUE(push(4, 4, 2, 0)) << "another priority";
  EXPECT_TRUE(push(5, 5, 0, 0)) << "one without a bound";
  EXPECT_TRUE(push(6, 3, 2, 1)) << "an idle instance takes it";
  EXPECT_FALSE(push(7, 3, 2, 1));
  queue.remove(*queue.first(at(0s)));
  queue.remove(*queue.first(at(0s)));
  EXPECT_TRUE(push(8, 3, 2, 0)) << "one place is free again";
  EXPECT_FALSE(push(9, 3, 2, 0));
}

TEST_F(QueueTest, RefusesTheSixthWithALimitOfFourAndOneRunning) {
  Queue& queue = make({.entries = 4});
  for (int round = 0; round < 100; ++round) {
    for (const bool thread_has_woken : {true, false}) {
      std::uint32_t idle = 1;
      EXPECT_TRUE(queue.push(item(1), at(0s), idle).taken);
      if (thread_has_woken) {
        queue.remove(*queue.first(at(0s)));  // it runs
        idle = 0;
      }
      for (int id = 2; id <= 5; ++id) EXPECT_TRUE(queue.push(item(id), at(0s), idle).taken);
      Item& sixth = item(6);
      EXPECT_FALSE(queue.push(sixth, at(0s), idle).taken);
      EXPECT_FALSE(sixth.waiting());
      queue.drain();
    }
  }
}

TEST_F(QueueTest, BoundsTheBytesThatWait) {
  Queue& queue = make({.entries = 9, .bytes = 100});
  EXPECT_TRUE(queue.push(item(1, Tier::kStandard, at(1s), 60), at(0s), 0).taken);
  EXPECT_FALSE(queue.push(item(2, Tier::kStandard, at(1s), 41), at(0s), 0).taken);
  EXPECT_FALSE(queue.push(item(3, Tier::kStandard, at(1s), UINT64_MAX), at(0s), 0).taken);
  EXPECT_TRUE(queue.push(item(4, Tier::kStandard, at(1s), 40), at(0s), 0).taken);
  EXPECT_EQ(queue.bytes(), 100u);
  EXPECT_FALSE(queue.push(item(5), at(0s), 0).taken);
}

TEST_F(QueueTest, AnEmptyQueueTakesAnySizeOnce) {
  for (const Tier tier : {Tier::kRealtime, Tier::kBatch}) {
    Queue& queue = make({.entries = 9, .bytes = 100});
    EXPECT_TRUE(queue.push(item(1, tier, at(1s), 500), at(0s), 0).taken);
    EXPECT_FALSE(queue.push(item(2, Tier::kBatch), at(0s), 0).taken);
  }
}

TEST_F(QueueTest, TierBatchUsesOnlyItsShareOfTheBounds) {
  Queue& queue = make({.entries = 8, .bytes = 100, .batch_share = 0.5});
  for (int id = 1; id <= 4; ++id) EXPECT_TRUE(queue.push(item(id, Tier::kBatch), at(0s), 0).taken);
  EXPECT_FALSE(queue.push(item(5, Tier::kBatch), at(0s), 0).taken);
  EXPECT_TRUE(queue.push(item(6, Tier::kBatch), at(0s), 1).taken) << "an idle instance takes it";
  EXPECT_TRUE(queue.push(item(7), at(0s), 0).taken);

  Queue& by_bytes = make({.entries = 8, .bytes = 100, .batch_share = 0.5});
  EXPECT_TRUE(by_bytes.push(item(1, Tier::kBatch, at(1s), 30), at(0s), 0).taken);
  EXPECT_FALSE(by_bytes.push(item(2, Tier::kBatch, at(1s), 21), at(0s), 0).taken);
  EXPECT_TRUE(by_bytes.push(item(3, Tier::kBatch, at(1s), 20), at(0s), 0).taken);
}

TEST_F(QueueTest, TierBatchAlwaysHasOnePlace) {
  Queue& queue = make({.entries = 1, .batch_share = 0.5});
  EXPECT_TRUE(queue.push(item(1, Tier::kBatch), at(0s), 0).taken);
  EXPECT_FALSE(queue.push(item(2, Tier::kBatch), at(0s), 0).taken);
}

TEST_F(QueueTest, ABetterTierEvictsTheNewestOfTierBatch) {
  Queue& queue = make({.entries = 4, .ageing = 1s});
  queue.push(item(1, Tier::kBatch), at(0s), 0);
  queue.push(item(2, Tier::kBatch), at(3s), 0);
  queue.push(item(3, Tier::kBatch), at(4s), 0);
  queue.push(item(4, Tier::kStandard), at(4s), 0);
  ASSERT_THAT(order(queue, at(4500ms)), ElementsAre(1, 2, 4, 3)) << "1 counts as realtime";
  for (const auto& [id, tier, evicted] :
       {std::tuple(5, Tier::kStandard, 3), std::tuple(6, Tier::kRealtime, 2),
        std::tuple(7, Tier::kStandard, 1)}) {
    const auto pushed = queue.push(item(id, tier), at(4500ms), 0);
    EXPECT_TRUE(pushed.taken);
    EXPECT_THAT(ids(pushed.evicted), ElementsAre(evicted));
    EXPECT_FALSE(pushed.evicted.front()->waiting());
    EXPECT_EQ(queue.size(), 4u);
  }
  const auto pushed = queue.push(item(8, Tier::kRealtime), at(4500ms), 0);
  EXPECT_FALSE(pushed.taken) << "standard entries are not evicted";
  EXPECT_THAT(pushed.evicted, IsEmpty());
}

TEST_F(QueueTest, EvictsAsManyAsTheBytesNeedOrNone) {
  Queue& queue = make({.entries = 9, .bytes = 100});
  queue.push(item(1, Tier::kStandard, at(1s), 50), at(0s), 0);
  for (int id = 2; id <= 4; ++id) queue.push(item(id, Tier::kBatch, at(1s), 15), at(0s), 0);
  const auto too_large = queue.push(item(5, Tier::kRealtime, at(1s), 51), at(0s), 0);
  EXPECT_FALSE(too_large.taken);
  EXPECT_THAT(too_large.evicted, IsEmpty());
  EXPECT_EQ(queue.size(), 4u);
  const auto fits = queue.push(item(6, Tier::kRealtime, at(1s), 30), at(0s), 0);
  EXPECT_TRUE(fits.taken);
  EXPECT_THAT(ids(fits.evicted), ElementsAre(4, 3));
  EXPECT_EQ(queue.bytes(), 95u);
}

TEST_F(QueueTest, WhatWaitedElsewhereIsTakenThoughFull) {
  Queue& queue = make({.entries = 1});
  queue.push(item(1), at(0s), 0);
  queue.push_anyway(item(2, Tier::kRealtime), at(0s));
  EXPECT_THAT(order(queue, at(0s)), ElementsAre(2, 1));
}

TEST_F(QueueTest, CountsWhatWaits) {
  Queue& queue = make({.bytes = kMany});
  Item& three = item(1, Tier::kRealtime, at(1s), 10);
  three.samples = 3;
  Item& five = item(2, Tier::kBatch, at(1s), 20);
  five.samples = 5;
  EXPECT_EQ(queue.oldest(), TimePoint::max());
  queue.push(five, at(1s), 0);
  queue.push(three, at(2s), 0);
  EXPECT_EQ(std::tuple(queue.size(), queue.samples(), queue.bytes(), queue.oldest()),
            std::tuple(2u, 8u, 30u, at(1s)));
  EXPECT_EQ(five.queued_at, at(1s));
  queue.remove(five);
  queue.remove(five);
  EXPECT_FALSE(five.waiting());
  EXPECT_EQ(std::tuple(queue.size(), queue.samples(), queue.bytes(), queue.oldest()),
            std::tuple(1u, 3u, 10u, at(2s)));
  EXPECT_THAT(ids(queue.drain()), ElementsAre(1));
  EXPECT_EQ(std::tuple(queue.size(), queue.samples(), queue.bytes()), std::tuple(0u, 0u, 0u));
  EXPECT_EQ(queue.first(at(2s)), nullptr);
}

TEST_F(QueueTest, ARemovedEntryMayBePushedAgain) {
  Queue& queue = make({.ageing = 1s});
  Item& again = item(1, Tier::kBatch);
  queue.push(again, at(0s), 0);
  queue.push(item(2, Tier::kStandard), at(0s), 0);
  ASSERT_THAT(order(queue, at(1900ms)), ElementsAre(2, 1));
  queue.remove(again);
  queue.push(again, at(1900ms), 0);
  EXPECT_THAT(order(queue, at(2800ms)), ElementsAre(2, 1)) << "its wait begins anew";
}

TEST(QueueDeathTest, LosesNobodySilently) {
  EXPECT_DEATH(
      {
        Item item(1);
        Queue queue({});
        queue.push(item, at(0s), 0);
      },
      "ends while entries wait \\(1\\)");
  EXPECT_DEATH(
      {
        Queue queue({});
        Item item(1);
        queue.push(item, at(0s), 0);
      },
      "an entry ends while it waits");
  EXPECT_DEATH(
      {
        Item item(1);
        Queue queue({});
        queue.push(item, at(0s), 0);
        queue.push(item, at(0s), 0);
      },
      "pushed twice");
}

}  // namespace
}  // namespace gradus::batch
