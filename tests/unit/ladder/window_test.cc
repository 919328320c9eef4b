#include "ladder/window.h"

#include <gtest/gtest.h>

namespace gradus::ladder {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

Window::Run good(TimePoint ended, Duration run) {
  return {.ended = ended, .run = run, .queue = 0ms, .ok = true, .steady = true};
}

TEST(Window, CountsWhatEachRuleAsksFor) {
  Window window({}, 50ms);
  window.add({.ended = kStart, .run = 9ms, .queue = 0ms, .ok = false, .steady = true});
  window.add(good(kStart, 49ms));
  window.add(good(kStart, 50ms));   // the target itself is not under the target
  window.add(good(kStart, 100ms));  // two targets are not over two targets
  window.add(good(kStart, 101ms));
  window.add({.ended = kStart, .run = 900ms, .queue = 0ms, .ok = true, .steady = false});
  window.add({.ended = kStart, .run = 900ms, .queue = 0ms, .ok = true, .probe = true});
  window.add({.ended = kStart, .run = 900ms, .queue = 0ms, .ok = false, .probe = true});
  const Window::Counts& counts = window.counts();
  EXPECT_EQ(counts.outcomes, 6u);
  EXPECT_EQ(counts.failures, 1u);
  EXPECT_EQ(counts.samples, 4u);
  EXPECT_EQ(counts.slow, 1u);
  EXPECT_EQ(counts.timed, 6u);
  EXPECT_EQ(counts.over_target, 5u);
}

TEST(Window, ForgetsWhatIsOlderThanItsSpan) {
  Window window({}, 50ms);
  window.add(good(kStart, 60ms));
  window.add(good(kStart + 1ms, 1ms));
  window.expire(kStart + 30s);
  EXPECT_EQ(window.counts().timed, 2u);
  window.expire(kStart + 30s + 1ns);
  EXPECT_EQ(window.counts().timed, 1u);
  EXPECT_EQ(window.counts().over_target, 0u);
  window.add(good(kStart + 60s, 1ms));
  EXPECT_EQ(window.counts().timed, 1u) << "adding expires too";
}

TEST(Window, KeepsTheLastRunsUpToItsCapacity) {
  config::PolicyConfig policy;
  policy.window_runs = 100;
  Window window(policy, 50ms);
  for (int i = 0; i < 250; ++i) window.add(good(kStart + i * 1ms, i < 160 ? 60ms : 1ms));
  EXPECT_EQ(window.counts().timed, 100u);
  EXPECT_EQ(window.counts().over_target, 10u);
}

TEST(Window, P99IsTheNearestRank) {
  Window window({}, 50ms);
  EXPECT_EQ(window.p99_run(), std::nullopt);
  for (int i = 1; i <= 200; ++i) {
    window.add(good(kStart + i * 1ms, std::chrono::milliseconds((i * 7) % 200 + 1)));
  }
  EXPECT_EQ(window.p99_run(), 198ms);  // of 1 … 200: the 198th
  window.clear();
  window.add({.ended = kStart, .run = 5ms, .queue = 40ms});
  window.add({.ended = kStart, .run = 900ms, .queue = 0ms, .ok = false});
  EXPECT_EQ(window.p99_run(), 5ms) << "failed runs tell no time";
  EXPECT_EQ(window.p99_queue_and_run(), 45ms);
}

TEST(Window, P99UnderTargetAgreesWithTheP99) {
  for (const int over : {0, 1, 2, 3}) {
    for (const int all : {1, 99, 100, 199, 200, 300}) {
      if (over > all) continue;
      Window window({}, 50ms);
      for (int i = 0; i < all; ++i) window.add(good(kStart, i < over ? 50ms : 49ms));
      EXPECT_EQ(window.p99_under_target(), window.p99_run() < Duration(50ms))
          << over << " of " << all;
    }
  }
  EXPECT_FALSE(Window({}, 50ms).p99_under_target()) << "nothing is known";
}

}  // namespace
}  // namespace gradus::ladder
