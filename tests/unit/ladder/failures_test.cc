// Soft demotion for failures: in a row, or too many of the window; the window; cooldowns; breakers.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Failures, TheThirdInARowDemotes) {
  auto story = Story::all_ready();
  story.bad(0, 2);
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.breaker(0), BreakerState::kClosed);
  story.bad(0);
  ASSERT_THAT(story.moves(), ElementsAre(Pair(0, 1)));
  EXPECT_EQ(story.last_cause(), Cause::kFailures);
  EXPECT_EQ(story.transitions[0].evidence, "level 0: 3 failures in a row");
  EXPECT_EQ(story.breaker(0), BreakerState::kOpen);
}

TEST(Failures, TheEvidenceEndsWithTheLastError) {
  auto story = Story::all_ready();
  story.bad(0, 2, "CUDA failure 1: first");
  story.bad(0, 1, "CUDNN failure 5000:\nexecution failed");
  ASSERT_THAT(story.moves(), ElementsAre(Pair(0, 1)));
  EXPECT_EQ(story.transitions[0].evidence,
            "level 0: 3 failures in a row, last error: CUDNN failure 5000: execution failed");
  const auto reason_of = [&](std::size_t level) {
    return status(story.state, story.now()).levels[level].reason;
  };
  EXPECT_EQ(reason_of(0), "CUDNN failure 5000: execution failed") << "its breaker is open";
  story.bad(2, 1, "once");
  EXPECT_EQ(reason_of(2), "") << "its breaker is closed";
  story.pass(1s);
  story.lost(0);
  story.ready(0);
  EXPECT_EQ(reason_of(0), "") << "of the worker before";
}

TEST(Failures, TheEvidenceOfAnErrorRateEndsWithTheLastError) {
  auto story = Story::all_ready();
  for (int i = 0; i < 10; ++i) {
    story.pass(10ms);
    i % 3 == 2 ? story.bad(0, 1, "it broke") : story.good(0);
  }
  ASSERT_EQ(story.last_cause(), Cause::kErrorRate);
  EXPECT_THAT(story.transitions[0].evidence, HasSubstr("limit 20.0 %), last error: it broke"));
}

TEST(Failures, ALongErrorIsCutBetweenTwoCharacters) {
  auto story = Story::all_ready();
  std::string error(999, 'x');
  error.append("é").append(5000, 'y');
  story.bad(0, 3, error);
  EXPECT_EQ(story.transitions[0].evidence,
            "level 0: 3 failures in a row, last error: " + std::string(999, 'x') + "…");
}

TEST(Failures, ASuccessBetweenThemStartsTheCountAgain) {
  auto story = Story::all_ready();
  story.bad(0, 2);
  story.pass(1s);
  story.good(0);
  story.bad(0, 2);
  EXPECT_EQ(story.current(), 0);
}

TEST(Failures, ARunThatWasEndedBetweenThemIsNoSuccess) {
  auto story = Story::all_ready();
  story.bad(0, 2);
  const auto served = story.of(0).served;
  story.pass(1s);
  story.stopped(0, 900ms);
  EXPECT_EQ(story.of(0).served, served);
  story.bad(0);
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 1)));
}

TEST(Failures, TwentyPercentOfTenDemoteAndLessDoesNot) {
  struct Case {
    int outcomes, failures;
    bool demotes;
  };
  for (const Case& c : {Case{10, 2, false}, Case{10, 3, true}, Case{9, 4, false},
                        Case{100, 20, false}, Case{100, 21, true}, Case{1000, 200, false}}) {
    auto story = Story::all_ready();
    // Good ones first, then failures with a good one after each, so that no three are in a row.
    for (int i = 0; i < c.outcomes - 2 * c.failures; ++i) {
      story.pass(10ms);
      story.good(0);
    }
    for (int i = 0; i < c.failures; ++i) {
      if (i + 1 < c.failures || c.outcomes - 2 * c.failures >= 0) {
        story.pass(10ms);
        story.good(0);
      }
      story.bad(0);
    }
    EXPECT_EQ(story.current() == 1, c.demotes) << c.failures << " of " << c.outcomes;
    if (c.demotes) {
      EXPECT_EQ(story.last_cause(), Cause::kErrorRate);
      EXPECT_THAT(story.transitions[0].evidence, HasSubstr("limit 20.0 %"));
      EXPECT_EQ(story.breaker(0), BreakerState::kClosed);
    }
  }
}

TEST(Failures, OfAnotherLevelOpenItsBreakerAndMoveNothing) {
  auto story = Story::all_ready();
  story.bad(1, 3);
  EXPECT_THAT(story.transitions, IsEmpty());
  EXPECT_EQ(story.breaker(1), BreakerState::kOpen);
  story.bad(0, 3);
  EXPECT_EQ(story.current(), 2) << "a level with an open breaker is no place to go";
}

TEST(Failures, GoWhereTheLoadCanBeCarried) {
  auto story = Story::all_ready();
  story.predict(1, 900ms);
  story.bad(0, 3);
  EXPECT_EQ(story.current(), 2);
}

TEST(Failures, AnErrorRateOfTheLastLevelDoesNotMoveUp) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
  story.pass(1s);
  story.lost(0);
  story.until(61s);
  story.ready(0);
  for (int i = 0; i < 20; ++i) {
    story.pass(10ms);
    story.outcome(1, i % 2 == 0);
  }
  story.good(0);   // closes its breaker
  story.probe(0);  // good, but not held
  story.tick();
  ASSERT_TRUE(story.of(0).usable());
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 1)));
}

TEST(Failures, OfTheLastLevelLeaveNowhereToGo) {
  auto story = Story::all_ready({{1, 800ms}});
  story.bad(1, 30);
  story.tick_until(300s);
  EXPECT_THAT(story.transitions, IsEmpty());
  EXPECT_EQ(story.current(), 1);
}

TEST(Outcomes, OutcomesOlderThanThirtySecondsDoNotCount) {
  auto story = Story::all_ready();
  story.until(1s);
  for (int i = 0; i < 2; ++i) {
    story.bad(0);
    story.pass(10ms);
    story.good(0);
  }
  story.until(31s + 20ms);  // the first failure leaves the window
  for (int i = 0; i < 6; ++i) {
    story.pass(10ms);
    story.good(0);
  }
  story.bad(0);
  EXPECT_EQ(story.current(), 0) << "3 of 11 would be over 20 %";
}

TEST(Outcomes, IsClearedAtEachTransition) {
  auto story = Story::all_ready();
  story.pass(1s);
  for (int i = 0; i < 4; ++i) {  // a request tried there on its way: 2 of 4 failed
    story.outcome(1, i % 2 == 0);
    story.pass(10ms);
  }
  story.bad(0, 2);
  story.lost(0);
  EXPECT_EQ(story.of(1).window.counts().outcomes, 0u);
  EXPECT_EQ(story.of(1).failures_in_row, 0u);
  EXPECT_EQ(story.of(0).window.counts().outcomes, 0u);
  EXPECT_EQ(story.of(0).failures_in_row, 0u);
}

TEST(Outcomes, RunsBegunBeforeTheTransitionAreDropped) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.until(62s);  // the cooldown is over
  story.lost(1);
  story.until(130s);
  const Duration since_move = story.since_start() - 62s;
  for (int i = 0; i < 3; ++i) story.outcome(2, false, since_move + 1ns);
  EXPECT_EQ(story.current(), 2);
  EXPECT_EQ(story.of(2).failed, 3u) << "they happened, but count against nobody";
  for (int i = 0; i < 3; ++i) story.outcome(2, false, since_move);
  EXPECT_EQ(story.current(), 3) << "begun with the transition is not before it";
}

TEST(Cooldown, NoSoftDemotionInsideIt) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(0, 3);  // at 1 s
  story.until(2s);
  story.bad(1, 5);
  story.tick_until(61s - 1ms);
  EXPECT_EQ(story.current(), 1);
  EXPECT_THAT(story.route_of(), ElementsAre(2, 3, 0, 1)) << "requests do not wait for it";
  story.until(61s);
  story.tick();
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 1), Pair(1, 2)))
      << "when it ends, the state is evaluated again";
}

TEST(Cooldown, AnErrorRateIsEvaluatedAtItsEndToo) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(0, 3);
  story.until(50s);
  for (int i = 0; i < 20; ++i) {
    story.pass(10ms);
    story.outcome(1, i % 2 == 0);
  }
  EXPECT_EQ(story.current(), 1);
  story.until(61s);
  story.tick();
  EXPECT_EQ(story.current(), 2);
  EXPECT_EQ(story.last_cause(), Cause::kErrorRate);
}

TEST(Cooldown, WhatHasHealedByItsEndStays) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(0, 3);
  story.until(2s);
  story.bad(1, 3);
  story.pass(10ms);
  story.good(1);
  story.tick_until(200s);
  EXPECT_EQ(story.current(), 1);
}

TEST(Cooldown, APromotionDoesNotEndIt) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  story.ready(0);
  story.probe_until(31s, {0});
  ASSERT_EQ(story.current(), 0);
  story.bad(0, 3);
  EXPECT_EQ(story.current(), 0) << "until 61 s";
  story.until(61s);
  story.tick();
  EXPECT_EQ(story.current(), 1);
}

TEST(Cooldown, AnOpenLastLevelIsLeftForABetterOneThatIsGood) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
  story.pass(10ms);
  for (int i = 0; i < 10; ++i) {  // the error rate moves down, the breaker stays closed
    story.pass(10ms);
    story.outcome(0, i % 2 == 0);
  }
  ASSERT_EQ(story.current(), 1);
  story.pass(1s);
  story.bad(1, 3);
  for (story.until(40s); story.since_start() < 70s; story.pass(1s)) {
    story.probe(0);  // good, but not for a whole hold
    story.tick();
    if (story.current() == 0) break;
  }
  EXPECT_EQ(story.since_start(), 61s) << "one tick after the cooldown";
  EXPECT_EQ(story.last_cause(), Cause::kFailures);
}

TEST(Cooldown, AnOpenLastLevelStaysWhileTheBetterOneFailsItsProbes) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
  for (int i = 0; i < 10; ++i) {
    story.pass(10ms);
    story.outcome(0, i % 2 == 0);
  }
  story.pass(1s);
  story.bad(1, 3);
  story.probe(0, false);
  story.tick_until(200s);
  EXPECT_EQ(story.current(), 1);
}

TEST(Breaker, ClosesOnSuccess) {
  auto story = Story::all_ready();
  story.bad(1, 3);
  story.pass(1s);
  story.good(1);
  EXPECT_EQ(story.breaker(1), BreakerState::kClosed);
}

TEST(Breaker, ASuccessBegunBeforeItOpenedDoesNotCloseIt) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.bad(1, 3);
  story.pass(10ms);
  story.outcome(1, true, 11ms);
  EXPECT_EQ(story.breaker(1), BreakerState::kOpen);
}

TEST(Breaker, HalfOpensAfterSixtySecondsForOneTrial) {
  auto story = Story::all_ready({{1, 800ms}, {2, 500ms}});
  story.until(1s - 30ms);
  story.bad(1, 3);  // now level 2
  story.lost(2);
  story.ready(2);
  ASSERT_EQ(story.current(), 1);
  ASSERT_EQ(story.breaker(1), BreakerState::kOpen);
  story.until(61s - 1ns);
  EXPECT_EQ(story.breaker(1), BreakerState::kOpen);
  story.until(61s);
  EXPECT_EQ(story.breaker(1), BreakerState::kHalfOpen);
}

TEST(Breaker, AFailedTrialOpensItForAnotherSixtySeconds) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(1, 3);
  story.until(61s);
  ASSERT_THAT(story.route_of(1, 1), ElementsAre(1));
  story.bad(1);  // once is enough
  EXPECT_EQ(story.breaker(1), BreakerState::kOpen);
  EXPECT_EQ(story.of(1).breaker.next_trial(), story.now() + 60s);
}

TEST(Breaker, OneFailureIsEnoughWhenTheFallHasClearedTheCount) {
  auto story = Story::all_ready();
  story.bad(0, 3);
  ASSERT_EQ(story.of(0).failures_in_row, 0u);
  story.pass(50s);
  story.bad(0);  // a request that accepts no other level
  EXPECT_EQ(story.of(0).breaker.next_trial(), story.now() + 60s);
}

TEST(Breaker, ACompletedHoldClosesItAndOneFailureDoesNotReopenIt) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(2, 3);
  story.until(2s);
  story.probe_until(32s - 1ms, {2});
  EXPECT_EQ(story.breaker(2), BreakerState::kOpen) << "probes alone do not close it";
  story.until(32s);
  story.probe(2);
  EXPECT_EQ(story.breaker(2), BreakerState::kClosed);
  story.bad(2, 2);
  EXPECT_EQ(story.breaker(2), BreakerState::kClosed);
}

}  // namespace
}  // namespace gradus::ladder
