#include <gtest/gtest.h>

#include "worker/max_run.h"
#include "worker/restart_policy.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr double kMiddle = 0.5;  // a chance that moves nothing

TEST(MaxRun, IsTheGreatestOfItsBounds) {
  EXPECT_EQ(max_run(50ms, 0s), 1s);     // the floor
  EXPECT_EQ(max_run(800ms, 0s), 8s);    // ten targets
  EXPECT_EQ(max_run(50ms, 900ms), 9s);  // ten of its slowest
}

TEST(MaxRun, OfAFirstRunIsLessOnceOthersHaveShownHowLongTheyTake) {
  EXPECT_EQ(max_first_run(50ms, std::nullopt), 60s);  // it may compile
  EXPECT_EQ(max_first_run(50ms, 5ms), 1s);
  EXPECT_EQ(max_first_run(800ms, 5ms), 8s);
  EXPECT_EQ(max_first_run(50ms, 2s), 20s);
  EXPECT_EQ(max_first_run(50ms, 30s), 60s);
}

TEST(ShapeTimes, TheFirstRunAndThoseAfterWarmUpDoNotCount) {
  ShapeTimes times;
  for (const Duration run : {8000ms, 20ms, 30ms, 10ms, 5000ms}) times.add(1, run);
  EXPECT_EQ(times.of(1).slowest, 30ms);
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
  const Restart fifth = after_death(state, policy, TimePoint(40s), kMiddle);
  EXPECT_TRUE(fifth.crash_loop);
  EXPECT_EQ(fifth.wait, 60s);
  after_probe(state);
  // The first two lie over a minute back by now.
  EXPECT_FALSE(after_death(state, policy, TimePoint(75s), kMiddle).crash_loop);
}

}  // namespace
}  // namespace gradus::worker
