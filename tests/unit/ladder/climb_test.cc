// Promotion: the hold, what breaks it, what else a level must show; relapses.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// Current level 1, level 0 back and ready since 1 s; no relapse.
Story fallen(const std::vector<LevelSpec>& levels = four_levels()) {
  auto story = Story::all_ready(levels);
  story.until(1s);
  story.lost(0);
  story.ready(0);
  story.transitions.clear();
  return story;
}

TEST(Hold, ThirtySecondsOfGoodProbesPromote) {
  auto story = fallen();
  story.probe_until(31s - 1ms, {0});
  EXPECT_EQ(story.current(), 1);
  story.until(31s);
  story.probe(0);
  ASSERT_THAT(story.moves(), ElementsAre(Pair(1, 0)));
  EXPECT_EQ(story.last_cause(), Cause::kPromoted);
  EXPECT_EQ(story.transitions[0].evidence,
            "level 0: good for 30.0 s (hold 30.0 s), p99 under 50.0 ms in 30 runs, relapses: 0");
  EXPECT_EQ(story.breaker(0), BreakerState::kClosed);
}

TEST(Hold, AFailedProbeStartsItAgain) {
  auto story = fallen();
  story.probe_until(20s, {0});
  story.probe(0, false);
  story.until(21s);
  story.probe_until(51s - 1ms, {0});
  EXPECT_EQ(story.current(), 1);
  story.until(51s);
  story.probe(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(Hold, AFailedTrialStartsItAgain) {
  auto story = fallen();
  story.probe_until(20s, {0});
  story.outcome(0, false);
  story.until(21s);
  story.probe_until(51s - 1ms, {0});
  EXPECT_EQ(story.current(), 1);
}

TEST(Hold, TrialTrafficCountsLikeProbes) {
  auto story = fallen();
  for (; story.since_start() < 31s; story.pass(500ms)) story.good(0);
  EXPECT_EQ(story.current(), 1);
  story.good(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(Hold, SilenceStartsItAgain) {
  auto story = fallen();
  story.probe_until(6s, {0});
  story.until(10s + 11ms);  // 5 probe intervals and more since the last one
  story.probe(0, true, 1ms);
  story.until(31s);
  story.probe_until(40s, {0});
  EXPECT_EQ(story.current(), 1);
}

TEST(Hold, ALongProbeIsNotSilence) {
  auto story = fallen();
  story.predict(0, 10ms);
  story.probe_until(25s, {0});
  story.until(33s);
  story.probe(0, true, 8s);  // under way all the time; slow, though
  EXPECT_EQ(story.of(0).hold.since(), Story::kStart + 1s);
  EXPECT_EQ(story.current(), 1);
}

TEST(Hold, GoodOnceIsNotGoodForThirtySeconds) {
  auto story = fallen();
  story.probe(0);
  story.tick_until(100s);
  story.probe(0);
  EXPECT_EQ(story.current(), 1);
}

TEST(Hold, TimeAloneDoesNotCompleteIt) {
  auto story = fallen();
  story.probe_until(30s, {0});
  story.until(31s);
  story.tick();
  EXPECT_EQ(story.current(), 1);
  story.probe(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(Hold, AnOldOneIsWorthNothing) {
  auto story = fallen();
  story.predict(0, 1s);  // may not climb yet
  story.probe_until(40s, {0});
  story.predict(0, std::nullopt);
  story.pass(6s);
  story.tick();
  EXPECT_EQ(story.current(), 1);
}

TEST(Hold, StartsWhenTheLevelWasLeft) {
  auto story = Story::all_ready();
  for (; story.since_start() < 60s; story.pass(1s)) story.good(0);  // good as the current level
  story.bad(0, 3);
  ASSERT_EQ(story.current(), 1);
  story.until(61s);
  story.probe_until(91s - 1ms, {0});
  EXPECT_EQ(story.current(), 1);
  story.until(91s);
  story.probe(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(Climb, WaitsForAP99UnderItsTarget) {
  auto story = fallen();
  story.probe_until(40s, {});
  for (; story.since_start() < 100s; story.pass(1s)) story.probe(0, true, 50ms);
  EXPECT_EQ(story.current(), 1) << "the target itself is not under the target";
  for (; story.since_start() < 130s; story.pass(1s)) story.probe(0, true, 49ms);
  EXPECT_EQ(story.current(), 1) << "one of 31 is over the p99";
  story.probe(0, true, 49ms);
  EXPECT_EQ(story.current(), 0);
}

TEST(Climb, WaitsForAPredictedP99UnderItsTarget) {
  auto story = fallen();
  story.predict(0, 50ms);
  story.probe_until(60s, {0});
  EXPECT_EQ(story.current(), 1);
  story.predict(0, 49ms);
  story.tick();
  EXPECT_EQ(story.current(), 0);
}

TEST(Climb, TakesTheBestLevelThatQualifies) {
  auto story = Story::all_ready();
  story.until(1s);
  for (const int level : {0, 1, 2}) story.lost(level);
  for (const int level : {0, 1, 2}) story.ready(level);
  for (const int level : {0, 1, 2}) story.predict(level, 1s);
  story.probe_until(40s, {0, 1, 2});
  ASSERT_EQ(story.current(), 3) << "none of them can carry the load";
  for (const int level : {1, 2}) story.predict(level, 10ms);
  story.tick();
  EXPECT_EQ(story.current(), 1);
}

TEST(Climb, ComesBeforeASoftFall) {
  auto story = fallen();
  story.predict(0, 1s);  // may not climb yet
  story.until(2s);
  story.bad(1, 3);
  story.probe_until(61s - 1ms, {0});
  ASSERT_EQ(story.current(), 1);
  story.predict(0, 10ms);
  story.until(61s);
  story.tick();
  EXPECT_EQ(story.current(), 0) << "not to level 2 and back";
}

TEST(Climb, APromotionLeavesTheHoldOfABetterLevelAlone) {
  auto story = Story::all_ready();
  story.until(1s);
  for (const int level : {0, 1}) story.lost(level);
  story.ready(1);
  story.until(3s);
  story.ready(0);
  story.probe_until(33s, {0, 1});
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 1), Pair(1, 0)));
}

TEST(Climb, NeedsNoTraffic) {
  auto story = fallen();
  story.probe_until(31s, {0});
  EXPECT_EQ(story.current(), 0) << "the hold alone promotes";
}

/// Promotes level 0 again as soon as the ladder lets it; the time from now until then.
Duration wait_for_promotion(Story& story) {
  const TimePoint from = story.now();
  while (story.current() != 0 && story.now() < from + 1h) {
    story.pass(1s);
    story.probe(0);
  }
  return story.now() - from;
}

TEST(Relapse, EachOneDoublesTheWaitUpToTheCap) {
  auto story = fallen();
  std::vector<Duration> waits;
  for (int i = 0; i < 7; ++i) {
    waits.push_back(wait_for_promotion(story));
    story.lost(0);
    story.ready(0);
  }
  EXPECT_THAT(waits, ElementsAre(30s, 60s, 120s, 240s, 480s, 600s, 600s));
}

TEST(Relapse, ShowsInTheEvidence) {
  auto story = fallen();
  wait_for_promotion(story);
  story.lost(0);
  story.ready(0);
  wait_for_promotion(story);
  EXPECT_THAT(story.transitions.back().evidence, HasSubstr("good for 60.0 s (hold 30.0 s)"));
  EXPECT_THAT(story.transitions.back().evidence, HasSubstr("relapses: 1"));
}

TEST(Relapse, IsADemotionWithinTenMinutesOfAPromotion) {
  for (const bool within : {true, false}) {
    auto story = fallen();
    wait_for_promotion(story);
    story.pass(within ? 10min - 1ns : 10min);
    story.lost(0);
    story.ready(0);
    EXPECT_EQ(wait_for_promotion(story), within ? 60s : 30s);
  }
}

TEST(Relapse, AFirstArrivalIsAPromotion) {
  Story story;
  story.ready(1);
  story.pass(1s);
  story.ready(0);
  story.pass(1s);
  story.lost(0);
  story.ready(0);
  EXPECT_EQ(wait_for_promotion(story), 60s);
}

TEST(Relapse, SoftDemotionsCountLikeHardOnes) {
  auto story = fallen();
  wait_for_promotion(story);
  story.pass(100s);
  story.bad(0, 3);
  ASSERT_EQ(story.current(), 1);
  EXPECT_EQ(wait_for_promotion(story), 60s);
}

TEST(Relapse, TenQuietMinutesPromotedForgiveOne) {
  auto story = fallen();
  for (int i = 0; i < 3; ++i) {  // three relapses
    wait_for_promotion(story);
    story.lost(0);
    story.ready(0);
  }
  wait_for_promotion(story);
  EXPECT_EQ(status(story.state, story.now()).levels[0].relapses, 3u);
  story.pass(20min);  // two are forgiven, and the next demotion is no relapse
  EXPECT_EQ(status(story.state, story.now()).levels[0].relapses, 1u);
  story.lost(0);
  story.ready(0);
  EXPECT_EQ(wait_for_promotion(story), 30s);
  story.lost(0);
  story.ready(0);
  EXPECT_EQ(wait_for_promotion(story), 120s) << "the second one that counts";
}

TEST(Relapse, TheCapDoesNotHideRelapsesThatMustBeForgivenOneByOne) {
  auto story = fallen();
  for (int i = 0; i < 12; ++i) {
    wait_for_promotion(story);
    story.lost(0);
    story.ready(0);
  }
  wait_for_promotion(story);
  EXPECT_EQ(status(story.state, story.now()).levels[0].relapses, 5u)
      << "30 s x 2^5 is past the cap";
  story.pass(10min);
  EXPECT_EQ(status(story.state, story.now()).levels[0].relapses, 4u);
}

TEST(Relapse, AFallPastALevelIsARelapseOfThatLevelToo) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  story.lost(1);
  story.ready(1);
  story.probe_until(31s, {1});
  ASSERT_EQ(story.current(), 1);
  story.ready(0);
  story.probe_until(61s, {0});
  ASSERT_EQ(story.current(), 0);
  story.lost(1);
  story.lost(0);
  ASSERT_EQ(story.current(), 2);
  story.ready(1);
  story.probe_until(121s - 1ms, {1});
  EXPECT_EQ(story.current(), 2) << "level 1 was promoted to 30 s before";
  story.until(121s);
  story.probe(1);
  EXPECT_EQ(story.current(), 1);
}

TEST(Relapse, AFallOntoALevelDoesNotHideThePromotionToIt) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  story.lost(1);
  story.ready(1);
  story.probe_until(31s, {1});
  story.ready(0);
  story.probe_until(61s, {0});
  ASSERT_EQ(story.current(), 0);
  story.lost(0);
  ASSERT_EQ(story.current(), 1);
  story.lost(1);
  story.ready(1);
  story.probe_until(121s - 1ms, {1});
  EXPECT_EQ(story.current(), 2) << "level 1 was promoted to 30 s before it was lost";
  story.until(121s);
  story.probe(1);
  EXPECT_EQ(story.current(), 1);
}

TEST(Relapse, AStartIsNoPromotion) {
  auto story = fallen();  // level 0 was the first one
  EXPECT_EQ(wait_for_promotion(story), 30s);
}

}  // namespace
}  // namespace gradus::ladder
