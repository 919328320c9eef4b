// Hard losses: what they move, where to, and what they leave alone.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(HardLoss, DemotesAtOnceToTheBestLevelThatIsLeft) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0, "device removed");
  ASSERT_THAT(story.moves(), ElementsAre(Pair(0, 1)));
  const Transition& move = story.transitions[0];
  EXPECT_EQ(move.cause, Cause::kHardLoss);
  EXPECT_EQ(move.at, Story::kStart + 1s);
  EXPECT_EQ(move.evidence, "level 0: device removed");
  EXPECT_EQ(story.of(0).condition, Condition::kUnavailable);
  EXPECT_EQ(story.breaker(0), BreakerState::kOpen);
}

TEST(HardLoss, DemotesInsideACooldownToo) {
  auto story = Story::all_ready();
  for (const int level : {0, 1, 2}) {
    story.pass(1s);
    story.lost(level);
  }
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3)));
}

TEST(HardLoss, RestartsTheCooldown) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.until(50s);
  story.lost(1);
  story.until(70s);  // the first cooldown is over, the second one is not
  story.bad(2, 3);
  story.tick_until(110s - 1ms);
  EXPECT_EQ(story.current(), 2);
  story.until(110s);
  story.tick();
  EXPECT_EQ(story.current(), 3);
}

TEST(HardLoss, OfAnotherLevelMovesNothing) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(2);
  EXPECT_THAT(story.transitions, IsEmpty());
  EXPECT_EQ(story.of(2).condition, Condition::kUnavailable);
  EXPECT_EQ(story.breaker(2), BreakerState::kOpen);
  EXPECT_THAT(story.route_of(), ElementsAre(0, 1, 3));
  story.pass(1s);
  story.bad(0, 3);
  EXPECT_EQ(story.current(), 1) << "it started no cooldown";
}

TEST(HardLoss, PassesOverLevelsThatCannotAnswer) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(1);
  story.bad(2, 3);  // its breaker opens
  story.lost(0);
  EXPECT_EQ(story.current(), 3);
}

TEST(HardLoss, PassesOverLevelsThatCannotCarryTheLoad) {
  auto story = Story::all_ready();
  story.predict(1, 800ms);  // not under its target
  story.predict(2, 499ms);
  story.pass(1s);
  story.lost(0);
  EXPECT_EQ(story.current(), 2);
}

TEST(HardLoss, TakesTheLastLevelWhenNoneCanCarryTheLoad) {
  auto story = Story::all_ready();
  for (const int level : {1, 2, 3}) story.predict(level, 10s);
  story.pass(1s);
  story.lost(0);
  EXPECT_EQ(story.current(), 3);
}

TEST(HardLoss, ClimbsWithoutAHoldWhenNothingElseIsLeft) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
  story.pass(1s);
  story.lost(0);
  story.pass(1s);
  story.ready(0);
  story.pass(1s);
  story.lost(1);
  EXPECT_EQ(story.current(), 0) << "its breaker is open, but level 1 is gone";
  EXPECT_EQ(story.last_cause(), Cause::kHardLoss);
}

TEST(HardLoss, PrefersABetterLevelToAnOpenBreaker) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}, {2, 500ms}});
  story.bad(2, 3);
  story.bad(0, 3);
  ASSERT_EQ(story.current(), 1);
  story.pass(1s);
  story.good(0);  // closes its breaker; level 2 stays open
  story.lost(1);
  EXPECT_EQ(story.current(), 0);
}

TEST(HardLoss, OfEveryOpenLevelTheOneOpenLongestIsNext) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}, {2, 500ms}});
  story.pass(1s);
  story.bad(2, 3);
  story.bad(1, 3);
  story.lost(0);
  EXPECT_EQ(story.current(), 2);
}

TEST(HardLoss, IsNeverDroppedHoweverOldTheRun) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);  // a transition now
  story.lost(1);  // of a run begun long before
  EXPECT_EQ(story.current(), 2);
}

TEST(HardLoss, AReturnStartsTheHold) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.until(20s);
  story.ready(0);
  story.probe_until(50s - 1ms, {0});
  EXPECT_EQ(story.current(), 1);
  story.until(50s);
  story.probe(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(HardLoss, AReturnByProbeStartsTheHold) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.until(10s);
  story.probe(0, false);
  EXPECT_EQ(story.of(0).condition, Condition::kUnavailable);
  story.until(20s);
  story.probe_until(50s - 1ms, {0});
  EXPECT_EQ(story.of(0).condition, Condition::kReady);
  EXPECT_EQ(story.current(), 1);
  story.until(50s);
  story.probe(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(HardLoss, AProbeFromBeforeItDoesNotBringTheLevelBack) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(2);
  story.pass(10ms);
  story.probe(2, true, 11ms);
  EXPECT_EQ(story.of(2).condition, Condition::kUnavailable);
  story.probe(2, true, 10ms);
  EXPECT_EQ(story.of(2).condition, Condition::kReady);
}

TEST(HardLoss, ALossInTheHoldStartsItAgain) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.until(10s);
  story.ready(0);
  story.probe_until(35s, {0});
  story.lost(0);
  story.ready(0);
  story.probe_until(65s - 1ms, {0});
  EXPECT_EQ(story.current(), 1);
  story.until(65s);
  story.probe(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(Loading, OfTheCurrentLevelLeavesIt) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.loading(0);
  EXPECT_EQ(story.current(), 1);
  EXPECT_EQ(story.last_cause(), Cause::kLeftOut);
  EXPECT_EQ(story.of(0).condition, Condition::kLoading);
}

}  // namespace
}  // namespace gradus::ladder
