// Soft demotion for slowness: what counts, and only to a level that does better.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr auto kFast = 10ms;
constexpr auto kSlow = 101ms;  // the target of level 0 is 50 ms

/// So many runs of level 0, one each 15 ms, the first `slow` of them slow. Ticks at the end.
void run(Story& story, int runs, int slow, Duration slow_run = kSlow) {
  for (int i = 0; i < runs; ++i) {
    story.pass(15ms);
    story.good(0, i < slow ? slow_run : Duration(kFast));
  }
  story.tick();
}

/// Level 0 is current and warm: its next runs count.
Story warm(const std::vector<LevelSpec>& levels = four_levels()) {
  auto story = Story::all_ready(levels);
  story.pass(1s);
  run(story, 2, 0);
  return story;
}

TEST(Slowness, NeedsSamplesACountAndAShare) {
  struct Case {
    int samples, slow;
    bool demotes;
  };
  for (const Case& c : {Case{20, 3, true}, Case{19, 3, false}, Case{20, 2, false},
                        Case{149, 3, true}, Case{150, 3, false}, Case{199, 4, true}}) {
    auto story = warm();
    run(story, c.samples, c.slow);
    EXPECT_EQ(story.current() == 1, c.demotes) << c.slow << " of " << c.samples;
  }
}

TEST(Slowness, IsWeighedAtTicksAndTellsItsNumbers) {
  auto story = warm();
  for (int i = 0; i < 40; ++i) {
    story.pass(15ms);
    story.good(0, i < 5 ? kSlow : kFast);
  }
  EXPECT_THAT(story.transitions, IsEmpty());
  story.tick();
  ASSERT_THAT(story.moves(), ElementsAre(Pair(0, 1)));
  EXPECT_EQ(story.last_cause(), Cause::kSlow);
  EXPECT_EQ(story.transitions[0].evidence,
            "level 0: 5 of 40 runs took over 100.0 ms, p99 101.0 ms, target 50.0 ms");
}

TEST(Slowness, TwoTargetsAreNotOverTwoTargets) {
  auto story = warm();
  run(story, 40, 40, 100ms);
  EXPECT_EQ(story.current(), 0);
}

TEST(Slowness, QueueingIsNotSlowness) {
  auto story = warm();
  for (int i = 0; i < 40; ++i) {
    story.pass(15ms);
    story.outcome(0, true, kFast, 20s);
  }
  story.tick();
  EXPECT_EQ(story.current(), 0);
}

TEST(Slowness, TheFirstTwoRunsOfAShapeDoNotCount) {
  auto story = warm();
  run(story, 30, 0);
  for (std::uint64_t shape = 100; shape < 120; ++shape) {
    for (int i = 0; i < 2; ++i) {
      story.pass(200ms);
      story.outcome(0, true, kSlow, 0ms, shape);
    }
  }
  story.tick();
  EXPECT_EQ(story.current(), 0);
  for (std::uint64_t shape = 100; shape < 103; ++shape) {
    story.pass(200ms);
    story.outcome(0, true, kSlow, 0ms, shape);
  }
  story.tick();
  EXPECT_EQ(story.current(), 1) << "the third ones do";
}

TEST(Slowness, TheFirstRunAfterTwoSecondsIdleDoesNotCount) {
  for (const bool idle : {true, false}) {
    auto story = warm();
    run(story, 30, 0);
    for (int i = 0; i < 5; ++i) {
      story.pass(kSlow + (idle ? 2s : 2s - 1ns));
      story.good(0, kSlow);
      run(story, 2, 0);
    }
    EXPECT_EQ(story.current() == 0, idle);
  }
}

TEST(Slowness, ReloadingMakesEveryShapeNewAgain) {
  auto story = warm();
  story.lost(0);
  story.ready(0);
  story.pass(1s);
  story.lost(1);
  story.lost(2);
  story.lost(3);  // level 0 again: nothing else is left
  for (const int level : {1, 2, 3}) story.ready(level);
  ASSERT_EQ(story.current(), 0);
  story.until(100s);
  run(story, 2, 2);
  EXPECT_EQ(story.of(0).window.counts().samples, 0u);
}

TEST(Slowness, GoesOnlyWhereThePredictionIsBetter) {
  struct Case {
    Duration predicted;
    bool goes;
  };
  for (const Case& c : {Case{100ms, true}, Case{101ms, false}, Case{799ms, false}}) {
    auto story = warm({{0, 50ms}, {1, 800ms}});
    story.predict(1, c.predicted);
    run(story, 40, 5);
    EXPECT_EQ(story.current() == 1, c.goes) << "the p99 of level 0 is 101 ms";
    EXPECT_EQ(status(story.state, story.now()).saturated, !c.goes);
  }
}

TEST(Slowness, APredictionMustBeUnderTheTargetToo) {
  auto story = warm({{0, 50ms}, {1, 60ms}, {2, 100ms}});
  story.predict(1, 60ms);
  story.predict(2, 60ms);
  run(story, 40, 5);
  EXPECT_EQ(story.current(), 2);
}

TEST(Slowness, WithoutAPredictionItGoesByWhatWasMeasured) {
  auto story = warm();
  for (int i = 0; i < 3; ++i) {
    story.pass(300ms);
    story.outcome(1, true, 300ms);  // fallback traffic
  }
  run(story, 40, 5);
  EXPECT_EQ(story.current(), 2) << "level 1 takes longer than level 0, of level 2 nothing is known";
}

TEST(Slowness, WithoutABetterLevelTheLadderStaysAndSaysSo) {
  auto story = warm();
  for (const int level : {1, 2, 3}) story.predict(level, 10s);
  run(story, 40, 5);
  EXPECT_THAT(story.transitions, IsEmpty());
  EXPECT_TRUE(status(story.state, story.now()).saturated);
  story.pass(31s);
  story.tick();
  EXPECT_FALSE(status(story.state, story.now()).saturated) << "the window is empty";
}

TEST(Slowness, NeverInsideACooldown) {
  auto story = Story::all_ready({{0, 50ms}, {1, 50ms}, {2, 500ms}});
  story.until(1s);
  story.lost(0);
  for (; story.since_start() < 60s; story.pass(1s)) {
    story.good(1, 200ms);
    story.tick();
  }
  EXPECT_EQ(story.current(), 1);
  story.until(61s);
  story.tick();
  EXPECT_EQ(story.current(), 2);
}

}  // namespace
}  // namespace gradus::ladder
