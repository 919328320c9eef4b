// Start, arrivals, levels that are left out, and all levels lost.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Start, NothingAnswersBeforeALevelIsReady) {
  Story story;
  EXPECT_EQ(story.current(), std::nullopt);
  EXPECT_THAT(story.route_of(), IsEmpty());
  EXPECT_TRUE(degraded(story.state));
}

TEST(Start, TheCurrentLevelIsTheBestOneThatIsLoaded) {
  Story story;
  story.pass(1s);
  story.ready(2);
  EXPECT_EQ(story.current(), 2);
  EXPECT_EQ(story.last_cause(), Cause::kStarted);
  story.pass(1s);
  story.ready(3);
  EXPECT_EQ(story.current(), 2) << "a worse level changes nothing";
  story.pass(1s);
  story.ready(0);
  EXPECT_EQ(story.current(), 0) << "a first arrival needs no hold";
  EXPECT_EQ(story.last_cause(), Cause::kArrived);
  story.pass(1s);
  story.ready(1);
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.transitions.size(), 2u);
}

TEST(Start, AFirstArrivalPromotesAtOnceHoweverLongItsLoadTakes) {
  Story story;
  story.ready(1);
  story.until(2h);
  story.ready(0);
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.last_cause(), Cause::kArrived);
}

TEST(Start, ALevelWhoseFirstLoadFailedJoinsByItsHold) {
  Story story;
  story.ready(1);
  story.pass(1s);
  story.lost(0, "no device");
  story.until(100s);
  story.loading(0);
  story.pass(10s);
  story.ready(0);
  EXPECT_EQ(story.current(), 1);
  EXPECT_EQ(story.breaker(0), BreakerState::kClosed);
  EXPECT_TRUE(wants_probe(story.state, 0, story.now()));
  story.probe_until(140s - 1ms, {0});
  EXPECT_EQ(story.current(), 1);
  story.until(140s);
  story.probe(0);
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.last_cause(), Cause::kPromoted);
}

TEST(Start, ALateFirstArrivalIsUsedAtOnceIfNoLevelAnswers) {
  Story story;
  story.lost(0, "no device");
  story.until(100s);
  story.ready(0);
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.last_cause(), Cause::kStarted);
}

TEST(Start, ALevelThatWasOnlySwitchedOffBeforeItsFirstLoadPromotesAtOnce) {
  Story story;
  story.ready(1);
  story.left_out(0, LeftOut::Why::kDisabled);
  story.lost(0);  // of a level that is left out: nothing
  story.loading(0);
  story.pass(100s);
  story.ready(0);
  EXPECT_EQ(story.current(), 0);
}

TEST(Start, ALevelThatComesBackDoesNotPromoteAtOnce) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.pass(1s);
  story.ready(0);
  EXPECT_EQ(story.current(), 1);
}

TEST(Start, AFailedLoadIsNoLossOfALevelThatNeverWas) {
  Story story;
  story.lost(0, "libcuda.so.1: cannot open");
  story.pass(1s);
  story.ready(1);
  const LevelStatus gpu = status(story.state, story.now()).levels[0];
  EXPECT_EQ(gpu.condition, Condition::kUnavailable);
  EXPECT_EQ(gpu.reason, "libcuda.so.1: cannot open");
  EXPECT_EQ(gpu.breaker, BreakerState::kClosed);
  EXPECT_TRUE(degraded(story.state)) << "level 0 is wanted";
}

TEST(Start, NumbersMayHaveGaps) {
  auto story = Story::all_ready({{1, 800ms}, {3, 200ms}, {7, 100ms}});
  EXPECT_EQ(story.current(), 1);
  story.pass(1s);
  story.lost(1);
  EXPECT_EQ(story.current(), 3);
  EXPECT_THAT(story.route_of(), ElementsAre(3, 7));
  EXPECT_THAT(story.route_of(4, 6), IsEmpty());
}

TEST(Start, RefusesLaddersThatAreNone) {
  const auto error = [](const std::vector<LevelSpec>& levels) {
    const auto state = make_state(levels, {}, Story::kStart);
    return state ? std::string() : state.error().message;
  };
  EXPECT_EQ(error({}), "levels: 0 given, must be 1 to 8");
  EXPECT_THAT(error(std::vector<LevelSpec>(9)), HasSubstr("9 given"));
  EXPECT_EQ(error({{1, 1ms}, {1, 1ms}}), "level 1: comes after level 1, must be ascending");
  EXPECT_EQ(error({{2, 0ms}}), "level 2: p99 target must be over 0");
  EXPECT_EQ(error({{5, 1ms}}), "");
}

TEST(LevelNumbersDeathTest, AnEventOfALevelThatIsNotThereIsABug) {
  auto story = Story::all_ready();
  EXPECT_DEATH(story.ready(4), "no level 4 among 4 levels");
}

TEST(Alerts, WaitForEveryLevelOrForTheGraceTime) {
  Story story;
  story.ready(3);
  story.ready(2);
  story.left_out(1, LeftOut::Why::kSkipped);
  EXPECT_FALSE(alerts_due(story.state, Story::kStart + 60s - 1ns));
  EXPECT_TRUE(alerts_due(story.state, Story::kStart + 60s));
  story.lost(0);
  EXPECT_TRUE(alerts_due(story.state, story.now())) << "all are settled";
  story.loading(0);
  EXPECT_FALSE(alerts_due(story.state, story.now()));
}

TEST(Alerts, ALevelThatIsLoadedAgainDoesNotSilenceThem) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.loading(0);
  EXPECT_TRUE(alerts_due(story.state, story.now()));
}

TEST(Alerts, UrgentWhileTheLastLevelAnswers) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.bad(3);
  EXPECT_FALSE(urgent(story.state, story.now())) << "a failure is no answer";
  story.pass(1s);
  story.good(3);  // one pinned request, the current level is 0
  EXPECT_TRUE(urgent(story.state, story.now() + 10s - 1ns));
  EXPECT_FALSE(urgent(story.state, story.now() + 10s));
}

TEST(Alerts, WhoAsksForTheLastLevelMakesNothingUrgent) {
  auto story = Story::all_ready();
  story.pass(1s);
  step(story.state, Outcome{.level = 3,
                            .begun = story.now() - 1ms,
                            .ended = story.now(),
                            .queue = {},
                            .run = 1ms,
                            .ok = true,
                            .bucket = 7,
                            .asked_for = true});
  EXPECT_EQ(story.of(3).served, 1u);
  EXPECT_FALSE(urgent(story.state, story.now()));
}

TEST(Alerts, UrgentCountsAnswersThatThePolicyDrops) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
  story.pass(1s);
  story.lost(0);
  story.pass(1ms);
  story.outcome(1, true, 500ms);  // begun before the transition
  EXPECT_TRUE(urgent(story.state, story.now()));
  EXPECT_EQ(story.of(1).served, 1u);
  EXPECT_EQ(story.of(1).window.counts().outcomes, 0u);
}

TEST(Alerts, TheOnlyLevelIsNotUrgent) {
  auto story = Story::all_ready({{1, 800ms}});
  story.pass(1s);
  story.good(1);
  EXPECT_FALSE(urgent(story.state, story.now()));
}

TEST(Alerts, TheLastLevelIsTheWorstOneThatIsNotLeftOut) {
  auto story = Story::all_ready();
  story.left_out(3, LeftOut::Why::kSkipped);
  story.pass(1s);
  story.good(1);
  EXPECT_FALSE(urgent(story.state, story.now()));
  story.good(2);
  EXPECT_TRUE(urgent(story.state, story.now()));
}

TEST(Alerts, NoneIsUrgentBeforeTheStartIsOver) {
  Story story;
  story.ready(3);
  story.pass(1s);
  story.good(3);
  EXPECT_FALSE(urgent(story.state, story.now()));
  story.until(60s);
  story.good(3);
  EXPECT_TRUE(urgent(story.state, story.now()));
}

TEST(Degraded, MeansWorseThanTheBestLevelThatIsWanted) {
  auto story = Story::all_ready();
  EXPECT_FALSE(degraded(story.state));
  EXPECT_FALSE(degraded_at(story.state, 0));
  EXPECT_TRUE(degraded_at(story.state, 1));
  story.left_out(0, LeftOut::Why::kDisabled);
  EXPECT_EQ(story.current(), 1);
  EXPECT_FALSE(degraded(story.state));
  EXPECT_TRUE(degraded_at(story.state, 2));
}

TEST(LeftOut, TheCurrentLevelIsLeftAtOnce) {
  for (const auto why : {LeftOut::Why::kSkipped, LeftOut::Why::kDisabled}) {
    auto story = Story::all_ready();
    story.pass(1s);
    story.left_out(0, why, "int8 is quicker");
    EXPECT_EQ(story.current(), 1);
    EXPECT_EQ(story.last_cause(), Cause::kLeftOut);
    EXPECT_EQ(story.transitions.back().evidence, "level 0: int8 is quicker");
    EXPECT_THAT(story.route_of(), ElementsAre(1, 2, 3));
  }
}

TEST(LeftOut, AnyOtherLevelOnlyDisappearsFromRoutes) {
  auto story = Story::all_ready();
  story.left_out(2, LeftOut::Why::kDisabled);
  EXPECT_THAT(story.transitions, IsEmpty());
  EXPECT_THAT(story.route_of(), ElementsAre(0, 1, 3));
}

TEST(LeftOut, NeitherALossNorAProbeBringsItBack) {
  auto story = Story::all_ready();
  story.left_out(0, LeftOut::Why::kDisabled, "by hand");
  story.pass(1s);
  story.lost(0);
  story.pass(1s);
  story.probe(0);
  EXPECT_EQ(story.of(0).condition, Condition::kDisabled);
  EXPECT_EQ(story.of(0).reason, "by hand");
  story.loading(0);
  EXPECT_EQ(story.of(0).condition, Condition::kLoading);
  story.ready(0);
  EXPECT_EQ(story.of(0).condition, Condition::kReady);
  EXPECT_EQ(story.of(0).reason, "");
  EXPECT_EQ(story.current(), 1) << "it was there before: it needs its hold";
}

TEST(AllLost, TheFirstLevelThatComesBackIsCurrentAtOnce) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}});
  story.pass(1s);
  story.lost(0);
  story.pass(1s);
  story.lost(1, "killed");
  EXPECT_EQ(story.current(), std::nullopt);
  EXPECT_EQ(story.transitions.back().evidence, "level 1: killed");
  EXPECT_THAT(story.route_of(), IsEmpty());
  story.pass(1s);
  story.ready(0);
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.last_cause(), Cause::kReturned);
  EXPECT_THAT(story.route_of(), ElementsAre(0)) << "its open breaker alone refuses nothing";
}

TEST(AllLost, AGoodProbeBringsALevelBackToo) {
  auto story = Story::all_ready({{1, 800ms}});
  story.pass(1s);
  story.lost(1);
  story.pass(1s);
  story.probe(1, false);
  EXPECT_EQ(story.current(), std::nullopt);
  story.pass(1s);
  story.probe(1);
  EXPECT_EQ(story.current(), 1);
  EXPECT_EQ(story.last_cause(), Cause::kReturned);
}

TEST(AllLost, AProbeFromBeforeTheLossProvesNothing) {
  auto story = Story::all_ready({{1, 800ms}});
  story.pass(1s);
  story.lost(1);
  story.pass(10ms);
  story.probe(1, true, 20ms);
  EXPECT_EQ(story.current(), std::nullopt);
}

}  // namespace
}  // namespace gradus::ladder
