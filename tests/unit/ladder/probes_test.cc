// Probes: which levels want them, and what bad ones do to an idle current level.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Level 0 can die unnoticed, level 1 cannot.
std::vector<LevelSpec> with_accelerator() {
  return {{.level = 0, .target_p99 = 50ms, .probed_when_idle = true},
          {.level = 1, .target_p99 = 800ms}};
}

bool wanted(const Story& story, int level) { return wants_probe(story.state, level, story.now()); }

TEST(WantsProbe, WhereSomethingDependsOnIt) {
  auto story = Story::all_ready();
  story.lost(0);
  story.pass(1s);
  EXPECT_TRUE(wanted(story, 0)) << "a good probe brings it back";
  EXPECT_FALSE(wanted(story, 1)) << "the current level has traffic";
  EXPECT_FALSE(wanted(story, 2)) << "a worse level waits";
  story.bad(2, 3);
  EXPECT_TRUE(wanted(story, 2)) << "a hold closes its breaker";
  story.ready(0);
  EXPECT_TRUE(wanted(story, 0)) << "its hold";
  story.left_out(0, LeftOut::Why::kDisabled);
  EXPECT_FALSE(wanted(story, 0));
}

TEST(WantsProbe, NotOfALevelThatNeverWasLoaded) {
  for (const bool idle : {true, false}) {
    Story story({{.level = 0, .target_p99 = 50ms, .probed_when_idle = idle}, {1, 800ms}});
    story.ready(1);
    EXPECT_FALSE(wanted(story, 0));
    story.lost(0);
    story.pass(1h);
    EXPECT_FALSE(wanted(story, 0));
  }
}

TEST(WantsProbe, AnIdleAcceleratorOneProbeIntervalAfterItsLastGoodNews) {
  auto story = Story::all_ready(with_accelerator());
  story.pass(1s - 1ns);
  EXPECT_FALSE(wanted(story, 0)) << "it was warmed up";
  story.pass(1ns);
  EXPECT_TRUE(wanted(story, 0));
  EXPECT_FALSE(wanted(story, 1)) << "a processor does not die unnoticed";
  story.probe(0);
  EXPECT_FALSE(wanted(story, 0));
  story.pass(1s);
  EXPECT_TRUE(wanted(story, 0));
  story.good(0);
  EXPECT_FALSE(wanted(story, 0)) << "live traffic tells";
  story.pass(1s);
  story.probe(0, false);
  EXPECT_TRUE(wanted(story, 0)) << "a bad probe is no good news";
  story.bad(0);
  EXPECT_TRUE(wanted(story, 0)) << "nor is a failure";
}

TEST(WantsProbe, NotWhileLiveTrafficProvesHealth) {
  auto story = Story::all_ready(with_accelerator());
  for (int i = 0; i < 100; ++i) {
    story.pass(900ms);
    EXPECT_FALSE(wanted(story, 0));
    story.good(0);
  }
}

TEST(WantsProbe, AnAcceleratorBelowTheCurrentLevelToo) {
  auto story =
      Story::all_ready({{0, 50ms}, {.level = 1, .target_p99 = 50ms, .probed_when_idle = true}});
  story.pass(1s);
  EXPECT_TRUE(wanted(story, 1));
}

TEST(BadProbes, ThreeOfAnIdleCurrentLevelDemoteLikeFailures) {
  auto story = Story::all_ready(with_accelerator());
  for (int i = 0; i < 2; ++i) {
    story.pass(1s);
    story.probe(0, false);
  }
  EXPECT_EQ(story.current(), 0);
  EXPECT_EQ(story.breaker(0), BreakerState::kClosed);
  story.pass(1s);
  story.probe(0, false);
  ASSERT_THAT(story.moves(), ElementsAre(Pair(0, 1)));
  EXPECT_EQ(story.last_cause(), Cause::kFailures);
  EXPECT_EQ(story.transitions[0].evidence, "level 0: 3 failures in a row, 3 of them probes");
  EXPECT_EQ(story.breaker(0), BreakerState::kOpen);
}

TEST(BadProbes, TheEvidenceHasTheirError) {
  auto story = Story::all_ready();
  for (int i = 0; i < 3; ++i) {
    story.pass(1s);
    story.probe(0, false, 1ms, "no device");
  }
  EXPECT_EQ(story.transitions.at(0).evidence,
            "level 0: 3 failures in a row, 3 of them probes, last error: no device");
}

TEST(BadProbes, CountTogetherWithFailedRequests) {
  auto story = Story::all_ready();
  story.bad(0, 2);
  story.pass(1s);
  story.probe(0, false);
  ASSERT_EQ(story.current(), 1);
  EXPECT_EQ(story.transitions[0].evidence, "level 0: 3 failures in a row, 1 of them probes");
}

TEST(BadProbes, AGoodAnswerForgetsThem) {
  auto story = Story::all_ready();
  for (int i = 0; i < 10; ++i) {
    story.pass(1s);
    story.probe(0, false);
    story.pass(10ms);
    story.probe(0, false);
    story.pass(10ms);
    story.good(0);
  }
  EXPECT_THAT(story.transitions, IsEmpty());
}

TEST(BadProbes, AGoodProbeForgetsBadOnesButNoFailedRequests) {
  auto story = Story::all_ready();
  for (int i = 0; i < 10; ++i) {
    story.pass(1s);
    story.probe(0, false);
    story.pass(1s);
    story.probe(0, false);
    story.pass(1s);
    story.probe(0);
  }
  EXPECT_THAT(story.transitions, IsEmpty());
  for (int i = 0; i < 3; ++i) {
    story.bad(0);
    story.pass(1s);
    story.probe(0);
  }
  EXPECT_EQ(story.current(), 1) << "it answers probes, not requests";
}

TEST(BadProbes, AreInNoErrorRate) {
  auto story = Story::all_ready();
  for (int i = 0; i < 20; ++i) {
    story.pass(100ms);
    story.good(0);
    story.pass(100ms);
    story.probe(0, false);
  }
  EXPECT_EQ(story.of(0).window.counts().failures, 0u);
  EXPECT_EQ(story.of(0).window.counts().outcomes, 20u);
  EXPECT_EQ(story.of(0).failed, 0u);
  EXPECT_EQ(story.current(), 0);
}

TEST(BadProbes, OfAnotherLevelOpenNoBreaker) {
  auto story = Story::all_ready();
  story.lost(0);
  story.ready(0);
  for (int i = 0; i < 10; ++i) {
    story.pass(1s);
    story.good(0);  // closes its breaker
    story.probe(0, false);
    story.probe(2, false);
  }
  EXPECT_EQ(story.breaker(0), BreakerState::kClosed) << "it gates, and counts, user requests only";
  EXPECT_EQ(story.breaker(2), BreakerState::kClosed);
  story.bad(2, 2);
  EXPECT_EQ(story.breaker(2), BreakerState::kClosed) << "two failures, not twelve";
}

TEST(BadProbes, BegunBeforeTheTransitionAreDropped) {
  auto story = Story::all_ready();
  story.pass(1s);
  story.lost(0);
  story.pass(70s);
  for (int i = 0; i < 3; ++i) story.probe(1, false, 70s + 1ns);
  EXPECT_EQ(story.current(), 1);
  for (int i = 0; i < 3; ++i) story.probe(1, false, 70s);
  EXPECT_EQ(story.current(), 2);
}

TEST(BadProbes, InACooldownTheySendRequestsElsewhereAndMoveWhenItEnds) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  for (int i = 0; i < 3; ++i) {
    story.pass(1s);
    story.probe(1, false);
  }
  EXPECT_EQ(story.current(), 1);
  EXPECT_THAT(story.route_of(1), ElementsAre(2, 3, 1));
  story.until(61s);
  story.tick();
  EXPECT_EQ(story.current(), 2);
}

TEST(BadProbes, AnotherOneRestartsTheRestOfAnOpenBreaker) {
  auto story = Story::all_ready({{1, 800ms}});
  story.bad(1, 3);
  story.pass(50s);
  story.probe(1, false);
  EXPECT_EQ(story.of(1).breaker.next_trial(), story.now() + 60s);
}

}  // namespace
}  // namespace gradus::ladder
