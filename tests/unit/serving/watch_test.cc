// What is told of a model's standing: each begin and each end once, nothing before alerts are due.
#include "serving/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "serving/prober.h"
#include "support/manual_clock.h"
#include "worker/supervisor.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;
using ladder::Condition;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Event::Kind;
using State = Event::State;

config::ModelConfig three_levels() {
  config::ModelConfig config;
  for (int i = 0; i < 3; ++i) {
    config::LevelConfig level;
    level.level = i;
    level.name = i == 0 ? "gpu" : i == 1 ? "cpu" : "small";
    config.levels.push_back(level);
  }
  return config;
}

// `level_lost+0`, `urgent-2`: kind, begun or ended, level if any.
std::string name_of(const Event& event) {
  constexpr const char* kNames[] = {"transition", "unserved",   "urgent",    "degraded",
                                    "saturated",  "level_lost", "crash_loop"};
  return std::string(kNames[static_cast<int>(event.kind)]) +
         (event.state == State::kBegun ? "+" : "-") +
         (event.level ? std::to_string(*event.level) : "");
}

class ModelWatchTest : public ::testing::Test {
 protected:
  ModelWatchTest() {
    standing_.alerts_due = true;
    standing_.current = 0;
    for (int i = 0; i < 3; ++i) standing_.levels.push_back({i, Condition::kReady, "", 0});
    EXPECT_THAT(look(), IsEmpty());
  }

  std::vector<std::string> look(Duration later = 200ms) {
    now_ += later;
    return names(watch_.look(standing_, now_));
  }

  std::vector<std::string> names(const std::vector<Event>& events) {
    std::vector<std::string> told;
    for (const Event& event : events) {
      EXPECT_EQ(event.model + event.version, "m1");
      text_ = event.text;
      if (!event.reason.empty()) reason_ = event.reason;
      told.push_back(name_of(event));
    }
    return told;
  }

  void stand(std::optional<int> current, bool urgent = false) {
    standing_.current = current;
    standing_.degraded = current != 0;
    standing_.urgent = urgent;
  }

  ModelWatch watch_{"m", "1", three_levels()};
  Standing standing_;
  TimePoint now_{1h};
  std::string text_, reason_;  // of the last event; of the last that had one
};

TEST_F(ModelWatchTest, TellsEachBeginAndEachEndOnce) {
  standing_.levels[0] = {0, Condition::kUnavailable, "CUDA failure 700", 1};
  stand(1);
  EXPECT_THAT(look(), ElementsAre("level_lost+0", "degraded+"));
  EXPECT_EQ(text_, "model 'm' is degraded: level 1 'cpu' answers, level 0 'gpu' is wanted");
  EXPECT_EQ(reason_, "CUDA failure 700");
  EXPECT_THAT(look(), IsEmpty());
  stand(2, true);
  EXPECT_THAT(look(), ElementsAre("urgent+2"));
  EXPECT_THAT(text_, HasSubstr("level 2 'small', its last, answers"));
  standing_.levels[0] = {0, Condition::kLoading, "", 1};
  EXPECT_THAT(look(), IsEmpty()) << "it is not back yet";
  standing_.levels[0] = {0, Condition::kReady, "", 1};
  EXPECT_THAT(look(), ElementsAre("level_lost-0"));
  stand(0);
  EXPECT_THAT(look(), ElementsAre("degraded-", "urgent-2"));
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(ModelWatchTest, TellsNothingBeforeAlertsAreDueAndThenHowItStands) {
  standing_.alerts_due = false;
  standing_.levels[0] = {0, Condition::kUnavailable, "no device", 1};
  standing_.levels[1].losses = 1;  // and back again
  stand(1);
  EXPECT_THAT(look(), IsEmpty());
  standing_.alerts_due = true;
  EXPECT_THAT(look(), ElementsAre("level_lost+0", "degraded+"));
}

TEST_F(ModelWatchTest, ALossThatNobodySawIsToldAllTheSame) {
  standing_.levels[0].losses = 1;
  EXPECT_THAT(look(), ElementsAre("level_lost+0", "level_lost-0"));
  EXPECT_THAT(look(), IsEmpty());
  standing_.levels[0] = {0, Condition::kUnavailable, "gone", 2};
  EXPECT_THAT(look(), ElementsAre("level_lost+0"));
  standing_.levels[0].losses = 3;  // another try to load it failed
  EXPECT_THAT(look(), IsEmpty());
  standing_.levels[0].condition = Condition::kDisabled;
  EXPECT_THAT(look(), ElementsAre("level_lost-0")) << "nobody misses it";
}

TEST_F(ModelWatchTest, MinimumServiceLastsWithoutTrafficUntilTheLadderIsUp) {
  stand(2, true);
  EXPECT_THAT(look(), ElementsAre("degraded+", "urgent+2"));
  stand(2, false);  // nobody has asked for a while
  EXPECT_THAT(look(60s), IsEmpty());
  standing_.levels[2].condition = Condition::kSkipped;  // the last is another now
  stand(1);
  EXPECT_THAT(look(), IsEmpty());
  stand(0);
  EXPECT_THAT(look(), ElementsAre("degraded-", "urgent-2")) << "with the level that it began with";
}

TEST_F(ModelWatchTest, SaturationIsOverOnlyAfterAWhile) {
  standing_.saturated = true;
  EXPECT_THAT(look(), ElementsAre("saturated+"));
  standing_.saturated = false;
  EXPECT_THAT(look(9s), IsEmpty());
  standing_.saturated = true;
  EXPECT_THAT(look(), IsEmpty());
  standing_.saturated = false;
  EXPECT_THAT(look(9s), IsEmpty());
  EXPECT_THAT(look(1s), ElementsAre("saturated-"));
}

TEST_F(ModelWatchTest, NoLevelAtAllIsToldApart) {
  stand({});
  EXPECT_THAT(look(), ElementsAre("unserved+", "degraded+"));
  stand(1);
  EXPECT_THAT(look(), ElementsAre("unserved-"));
}

TEST_F(ModelWatchTest, WhatLastsGoesOnWhenTheModelIsLoadedAnewAndEndsWhenItLeaves) {
  standing_.levels[0] = {0, Condition::kUnavailable, "no device", 1};
  standing_.levels[2] = {2, Condition::kUnavailable, "no file", 1};
  stand(1);
  EXPECT_THAT(look(), ElementsAre("level_lost+0", "level_lost+2", "degraded+"));
  config::ModelConfig two_levels = three_levels();
  two_levels.levels.pop_back();
  ModelWatch anew("m", "1", two_levels);
  ASSERT_TRUE(anew.same_as(watch_));
  EXPECT_FALSE(anew.same_as(ModelWatch("m", "2", two_levels)));
  EXPECT_THAT(names(anew.succeed(watch_)), ElementsAre("level_lost-2")) << "there is none any more";
  EXPECT_THAT(watch_.end(), IsEmpty());
  standing_.levels.pop_back();
  EXPECT_THAT(names(anew.look(standing_, now_)), IsEmpty());
  stand({});
  EXPECT_THAT(names(anew.look(standing_, now_)), ElementsAre("unserved+"));
  EXPECT_THAT(names(anew.end()), ElementsAre("level_lost-0", "unserved-", "degraded-"));
  EXPECT_EQ(text_, "model 'm' is not served as version 1 any more");
}

TEST(Prober, AReloadEndsNothingThatLastsAndAVersionThatLeavesOnlyItsOwn) {
  support::ManualClock clock;
  const auto degraded = [&](const std::string& version) {
    auto model = std::make_shared<Model>("m", version, "", three_levels(), clock);
    model->ladder.level_ready(1);
    model->ladder.level_ready(2);
    model->ladder.level_lost(0, "no device");
    return model;
  };
  Mutex mutex;
  std::vector<std::string> told;
  Prober prober(clock, nullptr, [&](const Event& event) {
    const MutexLock lock(mutex);
    told.push_back(event.version + " " + name_of(event));
  });
  const auto wait_for = [&](const std::string& what) {
    for (const TimePoint limit = steady_clock().now() + 20s; steady_clock().now() < limit;) {
      std::this_thread::yield();
      const MutexLock lock(mutex);
      if (std::ranges::find(told, what) != told.end()) return true;
    }
    return false;
  };
  const auto one = degraded("1");
  const auto two = degraded("2");
  prober.watch(one);
  prober.watch(two);
  prober.start();
  ASSERT_TRUE(wait_for("2 degraded+"));
  const auto anew = degraded("1");
  prober.watch(anew);
  one->leaves = true;
  two->leaves = true;
  ASSERT_TRUE(wait_for("2 degraded-"));
  anew->ladder.level_ready(0);
  ASSERT_TRUE(wait_for("1 level_lost-0"));
  const MutexLock lock(mutex);
  EXPECT_THAT(told, ElementsAre("1 level_lost+0", "1 degraded+", "2 level_lost+0", "2 degraded+",
                                "2 level_lost-0", "2 degraded-", "1 level_lost-0"));
}

TEST(WorkersWatch, ACrashLoopLastsUntilTheWorkerRuns) {
  WorkersWatch watch;
  worker::WorkerStatus worker{.device = "gpu:0", .state = worker::WorkerState::kWaiting};
  worker.last_fault = {worker::Loss::Cause::kDied, "killed by signal 11"};
  EXPECT_THAT(watch.look({worker}), IsEmpty());
  worker.state = worker::WorkerState::kCrashLoop;
  const auto begun = watch.look({worker});
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].state, State::kBegun);
  EXPECT_EQ(begun[0].device, "gpu:0");
  EXPECT_EQ(begun[0].cause, "died");
  EXPECT_EQ(begun[0].reason, "killed by signal 11");
  for (const auto state : {worker::WorkerState::kCrashLoop, worker::WorkerState::kStarting,
                           worker::WorkerState::kWaiting}) {
    worker.state = state;
    EXPECT_THAT(watch.look({worker}), IsEmpty());
  }
  worker.state = worker::WorkerState::kRunning;
  const auto ended = watch.look({worker});
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].state, State::kEnded);
  EXPECT_THAT(watch.look({worker}), IsEmpty());
}

TEST(WorkersWatch, ACrashLoopEndsWithTheWorkersPlace) {
  WorkersWatch watch;
  ASSERT_EQ(watch.look({{.device = "gpu:0", .state = worker::WorkerState::kCrashLoop}}).size(), 1U);
  const auto ended = watch.look({});
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].state, State::kEnded);
  EXPECT_EQ(ended[0].device, "gpu:0");
  EXPECT_THAT(watch.look({}), IsEmpty());
}

}  // namespace
}  // namespace gradus::serving
