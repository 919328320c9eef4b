// Soft demotion for overload: long waits and requests planned below, and only to a level that is
// predicted to do better; where hard losses and climbs go under load.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr auto kFast = 10ms;

bool saturated(const Story& story) { return status(story.state, story.now()).saturated; }

/// Level 0 is current for a second already.
Story under_way(const std::vector<LevelSpec>& levels = four_levels()) {
  auto story = Story::all_ready(levels);
  story.pass(1s);
  return story;
}

/// Level 0 answers each 100 ms for so long, after such a wait. Ticks each time.
void queue_up(Story& story, Duration for_so_long, Duration queue) {
  const TimePoint end = story.now() + for_so_long;
  for (; story.now() <= end; story.pass(100ms)) {
    story.outcome(0, true, kFast, queue);
    story.tick();
  }
}

TEST(Overload, HalfATargetOfQueueingForASecondDemotes) {
  struct Case {
    Duration queue, lasts;
    bool demotes;
  };
  for (const Case& c : {Case{26ms, 1s, true}, Case{25ms, 5s, false}, Case{26ms, 900ms, false}}) {
    auto story = under_way();
    story.predict(1, 20ms);
    queue_up(story, c.lasts, c.queue);
    EXPECT_EQ(story.current() == 1, c.demotes);
    if (c.demotes) {
      EXPECT_EQ(story.last_cause(), Cause::kOverload);
    }
  }
}

TEST(Overload, RequestsThatExpireWhileTheyWaitAreWantOfTimeToo) {
  for (const int late : {1, 3}) {
    auto story = under_way();
    story.predict(1, 20ms);
    story.planned(0, 17);
    for (int i = 0; i < late; ++i) step(story.state, TooLate{0, story.now()});
    story.tick();
    EXPECT_EQ(story.current(), late == 3 ? 1 : 0) << late << " of " << 17 + late;
    if (late == 3) {
      EXPECT_EQ(story.last_cause(), Cause::kOverload);
    }
  }
}

TEST(Overload, WhatExpiresAtAnotherLevelSaysNothingOfTheCurrentOne) {
  auto story = under_way();
  story.predict(1, 20ms);
  for (int i = 0; i < 30; ++i) step(story.state, TooLate{1, story.now()});
  story.tick();
  EXPECT_EQ(story.current(), 0);
}

TEST(Overload, OneShortWaitShowsThatTheQueueEmpties) {
  auto story = under_way();
  story.predict(1, 20ms);
  for (int i = 0; i < 5; ++i) {
    queue_up(story, 800ms, 40ms);
    story.outcome(0, true, kFast, 1ms);
  }
  EXPECT_EQ(story.current(), 0);
}

TEST(Overload, TwoWaitsFarApartAreNoOverload) {
  auto story = under_way();
  story.predict(1, 20ms);
  for (int i = 0; i < 5; ++i) {
    story.outcome(0, true, kFast, 40ms);
    story.tick();
    story.pass(1s + 1ms);
    story.tick();
  }
  EXPECT_EQ(story.current(), 0);
}

TEST(Overload, QueueingAtAnotherLevelIsNone) {
  auto story = under_way();
  story.predict(1, 20ms);
  for (int i = 0; i < 30; ++i) {
    story.outcome(2, true, kFast, 10s);
    story.tick();
    story.pass(100ms);
  }
  EXPECT_EQ(story.current(), 0);
  EXPECT_FALSE(status(story.state, story.now()).saturated);
}

TEST(Overload, EndsWithTheTraffic) {
  auto story = under_way();
  queue_up(story, 2s, 40ms);
  ASSERT_TRUE(status(story.state, story.now()).saturated);
  story.predict(1, 20ms);
  story.pass(1s);
  story.tick();
  EXPECT_EQ(story.current(), 0);
  EXPECT_FALSE(status(story.state, story.now()).saturated);
}

TEST(Overload, OnlyAPredictionShowsThatALowerLevelDoesBetter) {
  auto story = under_way();
  queue_up(story, 5s, 40ms);
  EXPECT_EQ(story.current(), 0);
  EXPECT_TRUE(status(story.state, story.now()).saturated);
  story.predict(2, 49ms);  // with queueing, level 0 takes 50 ms
  queue_up(story, 1s, 40ms);
  EXPECT_EQ(story.current(), 2);
}

TEST(Overload, CountsTheTimeInTheQueueOfTheCurrentLevel) {
  auto story = under_way({{0, 50ms}, {1, 800ms}});
  story.predict(1, 50ms);
  queue_up(story, 5s, 40ms);
  EXPECT_EQ(story.current(), 0) << "50 ms are not under 10 ms + 40 ms";
}

TEST(Overload, GoesToTheBestLevelThatIsPredictedToDoBetter) {
  auto story = under_way();
  story.predict(1, kCannotCarry);
  story.predict(2, 49ms);
  story.predict(3, 30ms);
  queue_up(story, 2s, 40ms);
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 2)));
}

TEST(Overload, TheCurrentLevelsOwnPredictionCountsToo) {
  for (const bool cannot : {true, false}) {
    auto story = under_way({{0, 50ms}, {1, 800ms}});
    story.predict(0, cannot ? kCannotCarry : Duration(60ms));
    story.predict(1, 700ms);
    queue_up(story, 2s, 40ms);
    EXPECT_EQ(story.current() == 1, cannot) << "measured are 50 ms";
  }
}

TEST(Overload, WhatIsMeasuredCountsWhereThePredictionIsLower) {
  auto story = under_way({{0, 50ms}, {1, 800ms}});
  story.predict(0, 20ms);
  story.predict(1, 40ms);
  queue_up(story, 2s, 40ms);
  EXPECT_EQ(story.current(), 1);
}

TEST(Slowness, IsWeighedByWhatWasMeasuredNotByThePrediction) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
  story.predict(0, kCannotCarry);
  story.predict(1, 700ms);
  for (int i = 0; i < 42; ++i) {
    story.pass(150ms);
    story.good(0, 150ms);
  }
  story.tick();
  EXPECT_THAT(story.transitions, IsEmpty());
  EXPECT_TRUE(saturated(story));
}

/// A second of which so many requests start at level 0 and so many at level 1 for want of time.
void plan(Story& story, int here, int below) {
  story.planned(0, here);
  story.planned(1, below, true);
  story.pass(1s);
  story.tick();
}

TEST(PlannedBelow, MoreThanTenPercentAreAnOverload) {
  struct Case {
    int here, below;
    bool demotes;
  };
  for (const Case& c : {Case{90, 10, false}, Case{89, 11, true}, Case{0, 10, true},
                        Case{0, 9, false}, Case{8, 1, false}, Case{8, 2, true}}) {
    auto story = Story::all_ready();
    story.predict(1, 400ms);
    plan(story, c.here, c.below);
    EXPECT_EQ(story.current() == 1, c.demotes) << c.below << " of " << c.here + c.below;
    if (!c.demotes) continue;
    EXPECT_EQ(story.last_cause(), Cause::kOverload);
    EXPECT_EQ(story.transitions[0].evidence,
              "level 0: " + std::to_string(c.below) + " of " + std::to_string(c.here + c.below) +
                  " requests have no time for it, p99 with queueing without bound, target 50.0 ms");
  }
}

TEST(PlannedBelow, OnlyForWantOfTimeAndOnlyBelowTheCurrentLevel) {
  auto story = Story::all_ready();
  story.predict(1, 400ms);
  story.predict(2, 300ms);
  story.planned(1, 50, false);  // they accept no better one
  story.planned(0, 50, true);
  story.tick();
  EXPECT_EQ(story.current(), 0);
  story.lost(0);
  ASSERT_EQ(story.current(), 1);
  story.pass(60s);
  story.planned(1, 50, true);  // planned before the fall
  story.tick();
  EXPECT_EQ(story.current(), 1);
  story.planned(2, 50, true);
  story.tick();
  EXPECT_EQ(story.current(), 2);
}

TEST(PlannedBelow, SlidesOverTenSeconds) {
  for (const Duration between : {10s - 1ms, 10s + 0ms}) {
    auto story = Story::all_ready();
    story.predict(1, 400ms);
    story.planned(1, 6, true);
    story.pass(between);
    story.planned(1, 4, true);
    story.tick();
    EXPECT_EQ(story.current() == 1, between < 10s);
  }
}

TEST(PlannedBelow, AMomentOfASteadyStreamIsNoOverload) {
  auto story = Story::all_ready();
  story.predict(1, 400ms);
  for (int i = 0; i < 9; ++i) plan(story, 100, 0);
  plan(story, 10, 90);
  EXPECT_EQ(story.current(), 0);
  plan(story, 10, 90);
  EXPECT_EQ(story.current(), 1);
}

TEST(PlannedBelow, NeedsALevelThatDoesBetter) {
  for (const std::optional<Duration> p99 :
       {std::optional<Duration>(), std::optional<Duration>(800ms), std::optional(kCannotCarry)}) {
    auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
    story.predict(1, p99);
    plan(story, 50, 50);
    EXPECT_THAT(story.transitions, IsEmpty());
    story.tick();
    EXPECT_TRUE(saturated(story));
    story.pass(2s);
    story.tick();
    EXPECT_FALSE(saturated(story)) << "nobody asks any more";
  }
}

TEST(PlannedBelow, IsSoftAndStartsAnewAfterATransition) {
  auto story = Story::all_ready();
  story.predict(2, 100ms);
  story.lost(0);
  story.pass(59s);
  story.planned(2, 50, true);
  story.tick();
  EXPECT_EQ(story.current(), 1) << "inside the cooldown";
  story.pass(1s);
  story.tick();
  ASSERT_EQ(story.current(), 2);
  EXPECT_EQ(story.state.planned_below.counts(story.now()).requests, 0u);
}

TEST(HardLoss, PassesOverALevelThatCannotCarryTheLoadAtAll) {
  auto story = Story::all_ready();
  story.predict(1, kCannotCarry);
  story.predict(2, kCannotCarry);
  story.predict(3, 100ms);
  story.lost(0);
  EXPECT_EQ(story.current(), 3);
}

TEST(Climb, WaitsForAPredictionWithABound) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  story.ready(0);
  story.predict(0, kCannotCarry);
  story.probe_until(60s, {0});
  EXPECT_EQ(story.current(), 1);
  story.predict(0, 49ms);
  story.tick();
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 1), Pair(1, 0)));
}

}  // namespace
}  // namespace gradus::ladder
