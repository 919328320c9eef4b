#include "ladder/route.h"

#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Route, StartsAtTheCurrentLevelAndGoesDown) {
  auto story = Story::all_ready();
  EXPECT_THAT(story.route_of(), ElementsAre(0, 1, 2, 3));
}

TEST(Route, TriesBetterLevelsWhenTheWorseOnesAreThroughBestFirst) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.lost(1);
  story.ready(0);
  story.ready(1);
  story.predict(0, 10s);  // they may not climb
  story.predict(1, 10s);
  story.probe_until(40s, {0, 1});  // the holds are complete, the breakers closed
  EXPECT_THAT(story.route_of(), ElementsAre(2, 3, 0, 1));
}

TEST(Route, KeepsToTheLevelsThatAreAccepted) {
  auto story = Story::all_ready();
  EXPECT_THAT(story.route_of(1, 2), ElementsAre(1, 2));
  EXPECT_THAT(story.route_of(0, 0), ElementsAre(0));
  EXPECT_THAT(story.route_of(4, 9), IsEmpty());
  EXPECT_THAT(story.route_of(2, 1), IsEmpty());
}

TEST(Route, LeavesOutLevelsThatAreNotReady) {
  Story story;
  story.ready(3);
  story.ready(1);
  story.left_out(3, LeftOut::Why::kSkipped);
  EXPECT_THAT(story.route_of(), ElementsAre(1));
}

TEST(Route, PutsOpenBreakersLast) {
  auto story = Story::all_ready();
  story.bad(1, 3);
  EXPECT_THAT(story.route_of(), ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(story.route_of(1, 2), ElementsAre(2, 1));
}

TEST(Route, WhenAllAreOpenTheOneOpenLongestIsFirst) {
  auto story = Story::all_ready({{0, 50ms}, {1, 800ms}, {2, 500ms}});
  story.pass(1s);
  story.bad(2, 3);
  story.bad(0, 3);  // leaves for level 1
  story.bad(1, 3);
  EXPECT_THAT(story.route_of(), ElementsAre(2, 0, 1));
  EXPECT_THAT(story.route_of(0, 1), ElementsAre(0, 1));
  story.bad(2);
  EXPECT_THAT(story.route_of(), ElementsAre(2, 0, 1)) << "it has been open all the time";
}

TEST(Route, OneRequestIsTheTrialOfALevelThatHasRested) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(1, 3);
  story.until(61s - 1ns);
  EXPECT_THAT(story.route_of(1), ElementsAre(2, 3, 1));
  story.until(61s);
  EXPECT_THAT(story.route_of(1), ElementsAre(1, 2, 3)) << "this one tries it";
  EXPECT_THAT(story.route_of(1), ElementsAre(2, 3, 1)) << "this one does not wait for that";
  EXPECT_EQ(story.breaker(1), BreakerState::kHalfOpen);
  story.pass(10ms);
  story.good(1);
  EXPECT_THAT(story.route_of(1), ElementsAre(1, 2, 3));
}

TEST(Route, ATrialOfWhichNothingIsHeardIsFollowedByAnother) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(1, 3);
  story.until(61s);
  ASSERT_THAT(story.route_of(1), ElementsAre(1, 2, 3));
  story.until(121s - 1ns);
  EXPECT_THAT(story.route_of(1), ElementsAre(2, 3, 1));
  story.until(121s);
  EXPECT_THAT(story.route_of(1), ElementsAre(1, 2, 3));
}

TEST(Route, ARequestThatStartsElsewhereDoesNotTakeTheTrial) {
  auto story = Story::all_ready();
  story.until(1s - 30ms);
  story.bad(1, 3);
  story.until(61s);
  EXPECT_THAT(story.route_of(0), ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(story.route_of(1), ElementsAre(1, 2, 3)) << "it is still to be had";
}

/// Level 1 is current; level 0 was left for its error rate, its breaker is closed.
Story with_a_closed_better_level() {
  auto story = Story::all_ready();
  for (int i = 0; i < 10; ++i) {
    story.pass(10ms);
    story.outcome(0, i % 2 == 0);
  }
  EXPECT_EQ(story.current(), 1);
  EXPECT_EQ(story.breaker(0), BreakerState::kClosed);
  return story;
}

TEST(Route, ABetterLevelWithAGoodProbeIsTriedBeforeOpenOnes) {
  auto story = with_a_closed_better_level();
  story.bad(3, 3);
  story.pass(1s);
  story.probe(0);
  EXPECT_THAT(story.route_of(), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(story.route_of(0, 0), ElementsAre(0));
}

TEST(Route, ABetterLevelWithABadProbeIsPutAside) {
  auto story = Story::all_ready({{0, 50ms}, {1, 50ms}, {2, 800ms}});
  for (int i = 0; i < 10; ++i) {
    story.pass(10ms);
    story.outcome(0, i % 2 == 0);
  }
  story.until(70s);
  for (int i = 0; i < 10; ++i) {
    story.pass(10ms);
    story.outcome(1, i % 2 == 0);
  }
  ASSERT_EQ(story.current(), 2);
  story.pass(1s);
  story.probe(0, false);
  EXPECT_THAT(story.route_of(), ElementsAre(2, 1, 0));
  EXPECT_THAT(story.route_of(0, 1), ElementsAre(1, 0)) << "it accepts only better levels";
  story.pass(1s);
  story.probe(0);
  EXPECT_THAT(story.route_of(0, 1), ElementsAre(0, 1));
}

TEST(Route, NeitherABreakerNorAProbeRefusesTheOnlyLevelThatIsAccepted) {
  auto story = with_a_closed_better_level();
  story.probe(0, false);
  EXPECT_THAT(story.route_of(0, 0), ElementsAre(0));
  story.bad(0, 3);
  EXPECT_THAT(story.route_of(0, 0), ElementsAre(0));
}

}  // namespace
}  // namespace gradus::ladder
