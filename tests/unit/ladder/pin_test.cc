// An operator's pin: the level that is current as long as it can answer.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

void pin(Story& story, int level, Duration for_so_long = 15min, std::string reason = "") {
  if (auto move = step(story.state,
                       Pinned{level, story.now(), story.now() + for_so_long, std::move(reason)})) {
    story.transitions.push_back(*move);
  }
}

void unpin(Story& story) {
  if (auto move = step(story.state, Unpinned{story.now()})) story.transitions.push_back(*move);
}

TEST(Pin, MovesThereAtOnce) {
  auto story = Story::all_ready();
  pin(story, 2, 15min, "new driver");
  EXPECT_THAT(story.moves(), ElementsAre(Pair(0, 2)));
  EXPECT_EQ(story.last_cause(), Cause::kPinned);
  EXPECT_EQ(story.transitions[0].evidence, "level 2 is pinned: new driver");
  EXPECT_THAT(story.route_of(), ElementsAre(2, 3, 0, 1));
}

TEST(Pin, StaysWhateverIsSlowOrFailsOrBetter) {
  auto story = Story::all_ready();
  pin(story, 2);
  story.bad(2, 3);
  story.probe_until(100s, {0, 1});
  EXPECT_EQ(story.current(), 2);
  EXPECT_THAT(story.route_of(), ElementsAre(2, 3, 0, 1)) << "one is its trial …";
  EXPECT_THAT(story.route_of(), ElementsAre(3, 0, 1, 2)) << "… and its breaker is open";
}

TEST(Pin, GivesWayToAHardLossAndComesBack) {
  auto story = Story::all_ready();
  pin(story, 2);
  story.pass(1s);
  story.lost(2);
  EXPECT_EQ(story.current(), 3);
  story.pass(1s);
  story.ready(2);
  EXPECT_EQ(story.current(), 2);
  EXPECT_EQ(story.last_cause(), Cause::kPinned);
}

TEST(Pin, EndsByItself) {
  auto story = Story::all_ready();
  story.pass(1s);
  pin(story, 1, 60s);
  story.probe_until(60s, {0});
  EXPECT_EQ(story.current(), 1);
  EXPECT_EQ(status(story.state, story.now()).pinned, 1);
  story.until(61s);
  story.probe(0);
  EXPECT_EQ(story.current(), 0) << "it held meanwhile";
  EXPECT_EQ(status(story.state, story.now()).pinned, std::nullopt);
}

TEST(Pin, IsNoFaultOfTheLevelThatWasLeft) {
  auto story = Story::all_ready();
  story.pass(1s);
  pin(story, 3);
  EXPECT_EQ(status(story.state, story.now()).cooldown_until, std::nullopt);
  EXPECT_EQ(status(story.state, story.now()).levels[0].relapses, 0U);
  story.probe_until(32s, {0});
  unpin(story);
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.last_cause(), Cause::kPromoted);
}

TEST(Pin, EndsACanary) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.ready(0);
  for (; story.since_start() < 32s; story.pass(1s)) {
    story.route_of();
    story.probe(0);
    story.tick();
  }
  ASSERT_NE(status(story.state, story.now()).levels[0].canary_share, std::nullopt);
  pin(story, 1);
  EXPECT_EQ(status(story.state, story.now()).levels[0].canary_share, std::nullopt);
}

TEST(Pin, ALevelThatArrivesIsNotServedThen) {
  Story story;
  story.ready(1);
  pin(story, 1);
  story.ready(0);
  EXPECT_EQ(story.current(), 1);
}

}  // namespace
}  // namespace gradus::ladder
