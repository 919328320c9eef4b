#include "batch/arrivals.h"

#include <gtest/gtest.h>

#include "unit/batch/item.h"

namespace gradus::batch {
namespace {

using namespace std::chrono_literals;

TEST(Arrivals, ALoneCallerExpectsNobody) {
  Arrivals arrivals;
  for (Duration t = 1s; t < 2s; t += 7ms) {
    arrivals.entered(at(t), 1);
    EXPECT_EQ(arrivals.expected(at(t)), 0u) << t.count();
    arrivals.left(at(t + 5ms), 1);
  }
}

TEST(Arrivals, CallersThatWereAnsweredAreExpectedBackUntilAllAreThere) {
  Arrivals arrivals;
  for (int caller = 0; caller < 4; ++caller) arrivals.entered(at(0s), 1);
  EXPECT_EQ(arrivals.expected(at(0s)), 0u);
  arrivals.left(at(10ms), 4);
  EXPECT_EQ(arrivals.expected(at(10ms)), 4u);
  for (std::uint32_t missing = 4; missing-- > 0;) {
    arrivals.entered(at(11ms), 1);
    EXPECT_EQ(arrivals.expected(at(11ms)), missing);
  }
}

TEST(Arrivals, ARunLongerThanAWindowForgetsNobody) {
  Arrivals arrivals(100ms);
  arrivals.entered(at(0s), 8);
  arrivals.left(at(950ms), 8);
  EXPECT_EQ(arrivals.expected(at(950ms)), 8u);
}

TEST(Arrivals, WhoStaysAwayIsForgottenAfterTheWindowThatFollows) {
  Arrivals arrivals(100ms);
  arrivals.entered(at(1000ms), 5);
  arrivals.left(at(1050ms), 4);
  EXPECT_EQ(arrivals.expected(at(1199ms)), 4u);
  EXPECT_EQ(arrivals.expected(at(1200ms)), 0u);
}

TEST(Arrivals, ALongSilenceIsForgottenAtOnce) {
  Arrivals arrivals(100ms);
  arrivals.entered(at(1000ms), 5);
  arrivals.left(at(1050ms), 5);
  EXPECT_EQ(arrivals.expected(at(60s)), 0u);
}

TEST(Arrivals, ATimeFromBeforeTheWindowCountsInIt) {
  Arrivals arrivals(100ms);
  arrivals.entered(at(1000ms), 2);
  arrivals.left(at(999ms), 1);
  EXPECT_EQ(arrivals.expected(at(999ms)), 1u);
}

TEST(ArrivalsDeathTest, NobodyLeavesWhoNeverCame) {
  Arrivals arrivals;
  arrivals.entered(at(0s), 1);
  EXPECT_DEATH(arrivals.left(at(0s), 2), "2 samples leave, 1 are in hand");
}

}  // namespace
}  // namespace gradus::batch
