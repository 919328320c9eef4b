#include "ladder/status.h"

#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

TEST(Status, TellsEachLevel) {
  auto story = Story::all_ready();
  story.until(1s);
  story.good(0, 20ms);
  story.good(0, 30ms);
  story.until(2s - 30ms);
  story.bad(1, 3);
  story.left_out(2, LeftOut::Why::kSkipped, "12.1 ms, level 1 takes 9.0 ms");
  const Status s = status(story.state, story.now());
  EXPECT_EQ(s.current, 0);
  EXPECT_FALSE(s.degraded);
  EXPECT_FALSE(s.saturated);
  EXPECT_FALSE(s.urgent);
  EXPECT_EQ(s.cooldown_until, std::nullopt);
  ASSERT_EQ(s.levels.size(), 4u);
  EXPECT_EQ(s.levels[0].level, 0);
  EXPECT_EQ(s.levels[0].condition, Condition::kReady);
  EXPECT_EQ(s.levels[0].breaker, BreakerState::kClosed);
  EXPECT_EQ(s.levels[0].next_trial, std::nullopt);
  EXPECT_EQ(s.levels[0].target_p99, 50ms);
  EXPECT_EQ(s.levels[0].p99, 30ms);
  EXPECT_EQ(s.levels[0].served, 2u);
  EXPECT_EQ(s.levels[0].failed, 0u);
  EXPECT_EQ(s.levels[1].breaker, BreakerState::kOpen);
  EXPECT_EQ(s.levels[1].next_trial, Story::kStart + 62s);
  EXPECT_EQ(s.levels[1].p99, std::nullopt);
  EXPECT_EQ(s.levels[1].failed, 3u);
  EXPECT_EQ(s.levels[2].condition, Condition::kSkipped);
  EXPECT_EQ(s.levels[2].reason, "12.1 ms, level 1 takes 9.0 ms");
}

TEST(Status, TellsTheEndOfTheCooldown) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  EXPECT_EQ(status(story.state, Story::kStart + 61s - 1ns).cooldown_until, Story::kStart + 61s);
  EXPECT_EQ(status(story.state, Story::kStart + 61s).cooldown_until, std::nullopt);
}

TEST(Status, TellsWhenALevelMayBePromotedAgain) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  EXPECT_EQ(status(story.state, story.now()).levels[0].promotion_from, std::nullopt) << "not ready";
  story.until(11s);
  story.ready(0);
  EXPECT_EQ(status(story.state, story.now()).levels[0].promotion_from, Story::kStart + 41s);
  story.probe_until(41s, {0});
  ASSERT_EQ(story.current(), 0);
  story.until(42s);
  story.lost(0);
  story.ready(0);
  EXPECT_EQ(status(story.state, story.now()).levels[0].promotion_from, Story::kStart + 102s)
      << "one relapse";
}

TEST(Status, NamesAreThoseOfTheProtocol) {
  EXPECT_STREQ(to_string(Condition::kReady), "ready");
  EXPECT_STREQ(to_string(Condition::kLoading), "loading");
  EXPECT_STREQ(to_string(Condition::kUnavailable), "unavailable");
  EXPECT_STREQ(to_string(Condition::kSkipped), "skipped");
  EXPECT_STREQ(to_string(Condition::kDisabled), "disabled");
  EXPECT_STREQ(to_string(BreakerState::kClosed), "closed");
  EXPECT_STREQ(to_string(BreakerState::kOpen), "open");
  EXPECT_STREQ(to_string(BreakerState::kHalfOpen), "half_open");
  const char* const names[] = {"started",  "arrived",    "promoted", "returned", "hard_loss",
                               "failures", "error_rate", "slow",     "overload", "left_out"};
  for (int i = 0; i <= static_cast<int>(Cause::kLeftOut); ++i) {
    EXPECT_STREQ(to_string(static_cast<Cause>(i)), names[i]);
  }
}

}  // namespace
}  // namespace gradus::ladder
