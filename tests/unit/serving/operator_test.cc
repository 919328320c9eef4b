// An operator's commands to one ladder: what they do, and what they are refused for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serving/ladder_driver.h"
#include "support/manual_clock.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;
using ladder::Condition;
using testing::HasSubstr;

config::ModelConfig three_levels() {
  config::ModelConfig config;
  for (int i = 0; i < 3; ++i) {
    config::LevelConfig level;
    level.level = i;
    level.name = "l" + std::to_string(i);
    level.providers = {{i == 0 ? "CUDAExecutionProvider" : "CPUExecutionProvider", {}}};
    config.levels.push_back(level);
  }
  return config;
}

class Operator : public testing::Test {
 protected:
  explicit Operator(int ready = 3) {
    for (int i = 0; i < ready; ++i) driver_.level_ready(i);
  }

  std::optional<int> current() const { return driver_.status().current; }
  ladder::LevelStatus level(int number) const {
    return driver_.status().levels.at(static_cast<std::size_t>(number));
  }
  static std::string refusal(const Result<void>& result, Code code = Code::kUnavailable) {
    if (result) return "done";
    EXPECT_EQ(result.error().code, code);
    return result.error().message;
  }
  void probe_level_0(Duration for_so_long) {
    for (Duration passed{}; passed <= for_so_long; passed += 1s) {
      driver_.tell(ladder::Probe{0, clock_.now(), 1ms, true});
      driver_.tick();
      clock_.advance(1s);
    }
  }

  support::ManualClock clock_;
  LadderDriver driver_{"m", "1", three_levels(), clock_};
};

TEST_F(Operator, PinsUntilTheTimeIsOver) {
  ASSERT_TRUE(driver_.pin(2, 60s, "new driver"));
  EXPECT_EQ(current(), 2);
  EXPECT_EQ(driver_.status().pinned, 2);
  EXPECT_EQ(driver_.status().pinned_until, clock_.now() + 60s);
  EXPECT_EQ(driver_.moves().back().transition.cause, ladder::Cause::kPinned);
  probe_level_0(59s);
  EXPECT_EQ(current(), 2);
  probe_level_0(1s);
  EXPECT_EQ(current(), 0);
  ASSERT_TRUE(driver_.pin(1, std::nullopt, ""));
  EXPECT_EQ(driver_.status().pinned_until, std::nullopt);
  driver_.unpin();
  EXPECT_EQ(driver_.status().pinned, std::nullopt);
  driver_.unpin();
}

TEST_F(Operator, APinNeedsALevelThatIsReady) {
  EXPECT_EQ(refusal(driver_.pin(7, {}, ""), Code::kInvalid),
            "level = 7: model 'm' has no such level, it has 0, 1, 2");
  driver_.level_lost(1, "no memory");
  EXPECT_THAT(refusal(driver_.pin(1, {}, "")), HasSubstr("level 1 is unavailable: no memory"));
  ASSERT_TRUE(driver_.disable(0, "fan"));
  EXPECT_THAT(refusal(driver_.pin(0, {}, "")),
              HasSubstr("level 0 is disabled: by an operator: fan"));
  EXPECT_EQ(driver_.status().pinned, std::nullopt);
}

TEST_F(Operator, ADisabledLevelIsLeftAtOnceAndNotMissed) {
  ASSERT_TRUE(driver_.disable(0, "fan"));
  EXPECT_EQ(current(), 1);
  EXPECT_EQ(driver_.moves().back().transition.cause, ladder::Cause::kLeftOut);
  EXPECT_EQ(level(0).condition, Condition::kDisabled);
  EXPECT_EQ(level(0).reason, "by an operator: fan");
  EXPECT_FALSE(driver_.status().degraded);
  EXPECT_TRUE(driver_.disabled(0));
  clock_.advance(1h);
  EXPECT_FALSE(driver_.wants_probe(0));
  const ladder::Route route = driver_.route({});
  EXPECT_EQ(std::vector<int>(route.begin(), route.end()), (std::vector{1, 2}));
}

TEST_F(Operator, AnEnabledLevelComesBackByItsHold) {
  ASSERT_TRUE(driver_.disable(0, ""));
  clock_.advance(1h);
  ASSERT_TRUE(driver_.enable(0));
  EXPECT_EQ(level(0).condition, Condition::kReady);
  EXPECT_EQ(current(), 1);
  probe_level_0(29s);
  EXPECT_EQ(current(), 1);
  probe_level_0(2s);
  EXPECT_EQ(current(), 0);
  EXPECT_EQ(driver_.moves().back().transition.cause, ladder::Cause::kPromoted);
  ASSERT_TRUE(driver_.enable(0)) << "it is";
  EXPECT_EQ(current(), 0);
}

TEST_F(Operator, NewsOfADisabledLevelWaitsUntilItIsEnabled) {
  ASSERT_TRUE(driver_.disable(0, ""));
  driver_.level_lost(0, "its worker died");
  EXPECT_EQ(driver_.standing().levels[0].losses, 0U) << "nobody wants it";
  driver_.level_ready(0);
  EXPECT_EQ(level(0).condition, Condition::kDisabled) << "a worker that is back enables nothing";
  driver_.level_lost(0, "its worker died again");
  ASSERT_TRUE(driver_.disable(0, "still")) << "for another reason";
  ASSERT_TRUE(driver_.enable(0));
  EXPECT_EQ(level(0).condition, Condition::kUnavailable);
  EXPECT_EQ(level(0).reason, "its worker died again");
  driver_.level_ready(0);
  EXPECT_EQ(level(0).condition, Condition::kReady);

  ASSERT_TRUE(driver_.disable(2, ""));
  driver_.level_left_out(2, ladder::LeftOut::Why::kSkipped, "slower");
  ASSERT_TRUE(driver_.enable(2));
  EXPECT_EQ(level(2).condition, Condition::kSkipped);
}

TEST_F(Operator, TheLastUsableLevelStays) {
  EXPECT_EQ(refusal(driver_.disable(7, ""), Code::kInvalid),
            "level = 7: model 'm' has no such level, it has 0, 1, 2");
  ASSERT_TRUE(driver_.pin(1, {}, ""));
  EXPECT_THAT(refusal(driver_.disable(1, "")), HasSubstr("is pinned: unpin it first"));
  driver_.unpin();
  ASSERT_TRUE(driver_.disable(0, "a"));
  driver_.level_lost(2, "no file");
  EXPECT_EQ(refusal(driver_.disable(1, "")),
            "level 1 of model 'm' is the only one that can answer now: level 0 is disabled: by an "
            "operator: a; level 2 is unavailable: no file");
  ASSERT_TRUE(driver_.disable(2, "")) << "it answers nobody";
  driver_.level_lost(1, "no memory");
  EXPECT_THAT(refusal(driver_.disable(1, "")), HasSubstr("is the last one that is left"));
  EXPECT_FALSE(driver_.disabled(1));
}

TEST_F(Operator, WhatTheConfigurationLeavesOutIsNotHis) {
  driver_.level_left_out(2, ladder::LeftOut::Why::kDisabled, "excluded by --providers");
  EXPECT_THAT(refusal(driver_.enable(2)), HasSubstr("excluded by --providers"));
}

class OperatorAtStart : public Operator {
 protected:
  OperatorAtStart() : Operator(0) {}
};

TEST_F(OperatorAtStart, ALevelDisabledWhileItLoadsArrivesOnceItIsEnabled) {
  driver_.level_ready(1);
  ASSERT_TRUE(driver_.disable(0, ""));
  driver_.level_ready(0);
  EXPECT_EQ(current(), 1);
  ASSERT_TRUE(driver_.enable(0));
  EXPECT_EQ(current(), 0) << "as it would have before";
  EXPECT_EQ(driver_.moves().back().transition.cause, ladder::Cause::kArrived);
  ASSERT_TRUE(driver_.disable(2, ""));
  ASSERT_TRUE(driver_.enable(2));
  EXPECT_EQ(level(2).condition, Condition::kLoading);
}

}  // namespace
}  // namespace gradus::serving
