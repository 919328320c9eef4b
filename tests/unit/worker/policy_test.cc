#include <gtest/gtest.h>

#include "worker/max_run.h"
#include "worker/restart_policy.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr double kMiddle = 0.5;  // a chance that moves nothing

TEST(MaxRun, IsTheGreatestOfItsBounds) {
  EXPECT_EQ(max_run(50ms, {.runs = 2}), 1s);                                  // the floor
  EXPECT_EQ(max_run(800ms, {.runs = 2}), 8s);                                 // ten targets
  EXPECT_EQ(max_run(50ms, {.runs = 2, .first = 30s, .slowest = 900ms}), 9s);  // ten of its own
  EXPECT_EQ(max_run(50ms, {.runs = 1, .first = 2s}), 8s) << "what else is known of a second run?";
  EXPECT_EQ(max_run(50ms, {.runs = 1, .first = 10ms}), 1s);
}

// A level's first runs so far: one of shape 1, with 100 bytes.
FirstRuns after(Duration run) {
  FirstRuns runs;
  runs.ended(1, 100, run);
  return runs;
}

TEST(FirstRuns, HaveLessTimeOnceOthersHaveShownHowLongTheyTake) {
  EXPECT_EQ(FirstRuns().limit(50ms, 1, 100), 60s);  // it may compile
  for (const std::uint64_t shape : {1, 2}) {
    EXPECT_EQ(after(5ms).limit(50ms, shape, 100), 1s);
    EXPECT_EQ(after(5ms).limit(800ms, shape, 100), 8s);
    EXPECT_EQ(after(2s).limit(50ms, shape, 100), 20s);
    EXPECT_EQ(after(30s).limit(50ms, shape, 100), 60s);
  }
}

TEST(FirstRuns, OfANewShapeHaveTimeByItsSize) {
  EXPECT_EQ(after(5ms).limit(50ms, 2, 1'000), 1s);  // 50 ms expected
  EXPECT_EQ(after(5ms).limit(50ms, 2, 100'000), 50s);
  EXPECT_EQ(after(5ms).limit(50ms, 2, 1'000'000'000'000), 60s);
  EXPECT_EQ(after(5ms).limit(50ms, 2, 1), 1s);
  FirstRuns empty;
  empty.ended(1, 0, 5ms);
  EXPECT_EQ(empty.limit(50ms, 2, 40), 2s);
  FirstRuns large = after(5ms);
  large.ended(2, 100'000, 3s);
  EXPECT_EQ(large.limit(50ms, 3, 100'000), 30s) << "by the largest that ran";
  EXPECT_EQ(large.limit(50ms, 1, 1'000'000), 30s) << "the shape has run: its size is no news";
}

TEST(FirstRuns, HaveFourTimesWhatWasTooShort) {
  FirstRuns runs = after(5ms);
  runs.ended(3, 500, 5ms);
  std::vector<Duration> limits;
  for (int i = 0; i < 5; ++i) {
    limits.push_back(runs.limit(50ms, 2, 200));
    runs.cut(2, 200, limits.back());
    runs.cut(2, 200, limits.back());  // another that was under way
    runs.ended(3, 500, 5ms);          // in a fresh worker
    runs.ended(static_cast<std::uint64_t>(10 + i), 150, 5ms);
  }
  EXPECT_EQ(limits, (std::vector<Duration>{1s, 4s, 16s, 60s, 60s}));
  EXPECT_EQ(runs.limit(50ms, 4, 300), 60s) << "no smaller";
  EXPECT_EQ(runs.limit(50ms, 4, 199), 1s) << "others of that size have run well";
  EXPECT_EQ(runs.limit(50ms, 1, 100), 1s) << "so has this one";
}

TEST(FirstRuns, OneAsLargeThatRunsWellEndsThat) {
  FirstRuns runs = after(5ms);
  runs.cut(2, 200, 1s);
  runs.cut(3, 300, 4s);
  EXPECT_EQ(runs.limit(50ms, 4, 200), 16s);
  runs.ended(4, 200, 6ms);
  EXPECT_EQ(runs.limit(50ms, 5, 300), 1s);
}

TEST(FirstRuns, AHangOfAShapeThatRanWellGivesNobodyMoreTime) {
  FirstRuns runs = after(5ms);
  runs.cut(1, 100, 1s);
  EXPECT_EQ(runs.limit(50ms, 1, 100), 1s);
  EXPECT_EQ(runs.limit(50ms, 2, 100), 1s);
}

TEST(FirstRuns, MemoryIsBounded) {
  FirstRuns runs;
  for (std::uint64_t shape = 0; shape < 10'000; ++shape) runs.ended(shape, 1, 5ms);
  EXPECT_EQ(runs.limit(50ms, 0, 100'000), 1s);
  EXPECT_EQ(runs.limit(50ms, 9'999, 100'000), 60s) << "taken for a new one";
}

TEST(ShapeTimes, TheFirstRunAndThoseAfterWarmUpDoNotCount) {
  ShapeTimes times;
  for (const Duration run : {8000ms, 20ms, 30ms, 10ms, 5000ms}) times.add(1, run);
  EXPECT_EQ(times.of(1).slowest, 30ms);
  EXPECT_EQ(times.of(1).first, 8000ms);
  EXPECT_GT(times.of(1).runs, 0);
  EXPECT_EQ(times.of(2).runs, 0);
}

TEST(ShapeTimes, MemoryIsBounded) {
  ShapeTimes times;
  for (std::uint64_t shape = 0; shape < 10'000; ++shape) times.add(shape, 1ms);
  EXPECT_EQ(times.of(0).runs, 1);
  EXPECT_EQ(times.of(9'999).runs, 0);
}

TEST(RestartPolicy, WaitsDoubleUpToTheCap) {
  RestartPolicy policy;
  policy.loop_deaths = 100;
  RestartState state;
  std::vector<Duration> waits;
  for (int i = 0; i < 11; ++i) {
    waits.push_back(after_death(state, policy, TimePoint(i * 1s), kMiddle).wait);
  }
  EXPECT_EQ(waits, (std::vector<Duration>{100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 6400ms,
                                          12800ms, 25600ms, 30s, 30s}));
}

TEST(RestartPolicy, WhatFailsAloneWaitsLikewise) {
  const RestartPolicy policy;
  EXPECT_EQ(backoff(policy, 1, kMiddle), 100ms);
  EXPECT_EQ(backoff(policy, 3, kMiddle), 400ms);
  EXPECT_EQ(backoff(policy, 1000, kMiddle), 30s);
  EXPECT_EQ(backoff(policy, 1, 0.0), 75ms);
}

TEST(RestartPolicy, AProbeThatSucceedsResetsTheWait) {
  const RestartPolicy policy;
  RestartState state;
  after_death(state, policy, TimePoint(0s), kMiddle);
  after_death(state, policy, TimePoint(1s), kMiddle);
  after_probe(state);
  EXPECT_EQ(after_death(state, policy, TimePoint(2s), kMiddle).wait, 100ms);
}

TEST(RestartPolicy, JitterStaysWithinItsShare) {
  const RestartPolicy policy;
  for (const auto& [chance, wait] : {std::pair(0.0, 75ms), std::pair(0.999, 124ms)}) {
    RestartState state;
    const Duration waited = after_death(state, policy, TimePoint(0s), chance).wait;
    EXPECT_GE(waited, wait);
    EXPECT_LT(waited, wait + 1ms);
  }
}

TEST(RestartPolicy, ManyDeathsInShortTimeAreACrashLoopEvenIfEachCameUp) {
  const RestartPolicy policy;
  RestartState state;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(after_death(state, policy, TimePoint(i * 10s), kMiddle).crash_loop);
    after_probe(state);
  }
  const Restart fifth = after_death(state, policy, TimePoint(40s), 0.0);
  EXPECT_TRUE(fifth.crash_loop);
  EXPECT_EQ(fifth.wait, 60s);
  after_probe(state);
  // The first two lie over a minute back by now.
  EXPECT_FALSE(after_death(state, policy, TimePoint(75s), kMiddle).crash_loop);
}

TEST(RestartPolicy, TheWaitInACrashLoopIsNeverShorterThanItsPause) {
  RestartPolicy policy;
  policy.loop_deaths = 1;
  for (const auto& [chance, wait] :
       {std::pair(0.0, 60'000ms), std::pair(kMiddle, 67'500ms), std::pair(0.999, 74'985ms)}) {
    RestartState state;
    EXPECT_EQ(after_death(state, policy, TimePoint(0s), chance).wait, wait);
  }
}

TEST(FailedRuns, TenInARowOverFiveSecondsMakeAWorkerSuspect) {
  const RestartPolicy policy;
  FailedRuns failed;
  for (int i = 0; i < 20; ++i) note_run(failed, false, TimePoint(i * 100ms));
  EXPECT_FALSE(may_be_useless(failed, policy)) << "many, but all within two seconds";
  note_run(failed, false, TimePoint(5s - 1ns));
  EXPECT_FALSE(may_be_useless(failed, policy));
  note_run(failed, false, TimePoint(5s));
  EXPECT_TRUE(may_be_useless(failed, policy));

  failed = {};
  for (int i = 0; i < 9; ++i) note_run(failed, false, TimePoint(i * 1s));
  EXPECT_FALSE(may_be_useless(failed, policy)) << "for long, but only nine";
  note_run(failed, false, TimePoint(9s));
  EXPECT_TRUE(may_be_useless(failed, policy));
}

TEST(FailedRuns, OneSuccessMakesUpForAll) {
  const RestartPolicy policy;
  FailedRuns failed;
  for (int i = 0; i < 100; ++i) note_run(failed, false, TimePoint(i * 1s));
  note_run(failed, true, TimePoint(100s));
  EXPECT_FALSE(may_be_useless(failed, policy));
  for (int i = 0; i < 10; ++i) note_run(failed, false, TimePoint(101s + i * 100ms));
  EXPECT_FALSE(may_be_useless(failed, policy)) << "the time counts anew too";
}

}  // namespace
}  // namespace gradus::worker
