#include "ladder/plan.h"

#include <gtest/gtest.h>

namespace gradus::ladder {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{1000h};

Prospect prospect(Duration wait, Duration mean, Duration tail, std::uint32_t outcomes = 100) {
  return {wait, {.mean = mean, .deviation = 0ms, .tail = tail, .outcomes = outcomes}};
}

TEST(Plan, ALevelMakesItIfItsP99Does) {
  EXPECT_TRUE(makes_it(prospect(10ms, 20ms, 40ms), kNow, kNow + 50ms));
  EXPECT_FALSE(makes_it(prospect(10ms, 20ms, 40ms), kNow, kNow + 50ms - 1ns));
}

TEST(Plan, WhatIsUsualIsLessThanTheTail) {
  const Estimate run{.mean = 20ms, .deviation = 5ms, .tail = 40ms, .outcomes = 100};
  EXPECT_EQ((Prospect{10ms, run}.usual()), 40ms);
  EXPECT_EQ((Prospect{10ms, {.mean = 20ms, .deviation = 15ms, .tail = 40ms}}.usual()), 50ms);
}

struct Row {
  const char* what;
  Duration usual;  // of the attempt, which started at kNow
  Prospect next;
  Duration deadline;              // from kNow
  std::optional<Duration> hedge;  // from kNow
};

TEST(Plan, HedgesAtTheLastMomentButNoSoonerThanNeeded) {
  const Row rows[] = {
      {"the last moment, 5 % for waking up", 10ms, prospect(0ms, 20ms, 40ms), 1s, 910ms},
      {"or 2 ms", 1ms, prospect(0ms, 2ms, 4ms), 20ms, 14ms},
      {"the next one's wait counts", 10ms, prospect(100ms, 20ms, 40ms), 1s, 810ms},
      {"not before the attempt should be over", 80ms, prospect(0ms, 15ms, 40ms), 100ms, 80ms},
      {"the mean must fit", 80ms, prospect(0ms, 20ms, 40ms), 100ms, 80ms},
      {"and does not", 80ms, prospect(0ms, 20ms + 1ns, 40ms), 100ms, std::nullopt},
      {"nothing known of the attempt: at once", 0ms, prospect(0ms, 50ms, 100ms), 100ms, 0ms},
  };
  for (const Row& row : rows) {
    const auto at = hedge_at({kNow, row.usual, row.next, false, kNow + row.deadline});
    ASSERT_EQ(at.has_value(), row.hedge.has_value()) << row.what;
    if (at) {
      EXPECT_EQ(*at - kNow, *row.hedge) << row.what;
    }
  }
}

TEST(Plan, HedgesUpwardsOnlyWhatIsSureToBeInTime) {
  const Prospect next = prospect(0ms, 10ms, 40ms);
  Hedge hedge{kNow, 80ms, next, false, kNow + 100ms};
  EXPECT_EQ(hedge_at(hedge), kNow + 80ms);
  hedge.upwards = true;
  EXPECT_EQ(hedge_at(hedge), std::nullopt);
  hedge.deadline = kNow + 200ms;
  EXPECT_EQ(hedge_at(hedge), kNow + 150ms);
}

TEST(HedgeBudget, TakesItsShareAndSavesUpFifty) {
  HedgeBudget budget(0.05);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(budget.take()) << i;
  EXPECT_FALSE(budget.take());
  for (int i = 0; i < 19; ++i) budget.request();
  EXPECT_FALSE(budget.take());
  budget.request();
  budget.request();  // 0.05 is no binary fraction
  EXPECT_TRUE(budget.take());
  EXPECT_FALSE(budget.take());
  for (int i = 0; i < 100'000; ++i) budget.request();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(budget.take()) << i;
  EXPECT_FALSE(budget.take());
}

TEST(HedgeBudget, OfNothingIsNothing) {
  HedgeBudget budget(0);
  for (int i = 0; i < 1000; ++i) budget.request();
  EXPECT_FALSE(budget.take());
}

}  // namespace
}  // namespace gradus::ladder
