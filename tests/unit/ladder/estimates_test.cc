// How long a run takes: from the warm-up, from outcomes, from neighbours; what heals, what is
// forgotten.
#include "ladder/estimates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace gradus::ladder {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1000h};
constexpr Size kOne{1, 7};

double ratio(Duration a, Duration b) {
  return static_cast<double>(a.count()) / static_cast<double>(b.count());
}

/// So many equal runs, one each millisecond; the time of the last one.
TimePoint feed(Estimates& estimates, Size size, int runs, Duration run, TimePoint from,
               Duration gap = 1ms) {
  for (int i = 0; i < runs; ++i) estimates.add(size, run, from += gap);
  return from;
}

Estimates warmed(Size size = kOne, Duration run = 10ms) {
  Estimates estimates;
  for (int i = 0; i < 5; ++i) estimates.warm_up(size, run);
  return estimates;
}

TEST(Estimates, KnowNothingAtFirst) {
  const Estimate e = Estimates().predict(kOne, kStart);
  EXPECT_EQ(e.mean, 0ns);
  EXPECT_EQ(e.tail, 0ns);
  EXPECT_FALSE(e.trusted());
}

TEST(Estimates, StartWithTheWarmUp) {
  Estimates estimates;
  for (const Duration run : {900ms, 500ms, 10ms, 12ms, 14ms}) estimates.warm_up(kOne, run);
  const Estimate e = estimates.predict(kOne, kStart);
  EXPECT_EQ(e.outcomes, 0u);
  // 500 ms replaced 900 ms, and stays one of four.
  EXPECT_NEAR(to_ms(e.mean), (500 + 10 + 12 + 14) / 4.0, 1e-3);
  EXPECT_EQ(e.tail, 500ms);
}

TEST(Estimates, FollowOutcomes) {
  Estimates estimates = warmed();
  const TimePoint now = feed(estimates, kOne, 500, 40ms, kStart);
  const Estimate e = estimates.predict(kOne, now);
  EXPECT_NEAR(ratio(e.mean, 40ms), 1, 0.02);
  EXPECT_NEAR(ratio(e.tail, 40ms), 1, 0.07);
  EXPECT_EQ(e.outcomes, 500u);
}

TEST(Estimates, TenOutcomesOfJustThisSizeAreTrusted) {
  Estimates estimates = warmed();
  TimePoint now = feed(estimates, kOne, 9, 10ms, kStart);
  EXPECT_FALSE(estimates.predict(kOne, now).trusted());
  now = feed(estimates, kOne, 1, 10ms, now);
  EXPECT_TRUE(estimates.predict(kOne, now).trusted());
  EXPECT_FALSE(estimates.predict({2, 7}, now).trusted()) << "a guess";
  EXPECT_FALSE(estimates.predict({1, 8}, now).trusted()) << "a guess";
}

TEST(Estimates, TheFirstTwoRunsOfASizeAreReplaced) {
  Estimates estimates;
  estimates.add(kOne, 5s, kStart);
  estimates.add(kOne, 2s, kStart);
  EXPECT_EQ(estimates.predict(kOne, kStart).mean, 2s);
  Estimates replaced;
  replaced.add(kOne, 5s, kStart);
  replaced.add(kOne, 10ms, kStart);
  replaced.add(kOne, 10ms, kStart);
  EXPECT_EQ(replaced.predict(kOne, kStart).mean, 10ms);
  EXPECT_LT(replaced.predict(kOne, kStart).tail, 11ms);
}

using Draw = double (*)(std::mt19937_64&);
struct Sample {
  std::string name;
  Draw draw;  // ms
};
std::vector<Sample> samples() {
  return {
      {"lognormal 0.2",
       [](std::mt19937_64& r) { return std::lognormal_distribution(2.3, 0.2)(r); }},
      {"lognormal 0.5",
       [](std::mt19937_64& r) { return std::lognormal_distribution(2.3, 0.5)(r); }},
      {"30 % slow", [](std::mt19937_64& r) { return r() % 10 < 3 ? 50.0 : 10.0; }},
      {"5 % slow", [](std::mt19937_64& r) { return r() % 20 == 0 ? 50.0 : 10.0; }},
      {"3 % slow", [](std::mt19937_64& r) { return r() % 100 < 3 ? 50.0 : 10.0; }},
      {"constant", [](std::mt19937_64&) { return 12.4; }},
  };
}

TEST(Estimates, TheTailIsTheP99AfterTwoHundredOutcomes) {
  for (const Sample& sample : samples()) {
    std::mt19937_64 random(11);
    std::vector<double> all(100'000);
    for (double& run : all) run = sample.draw(random);
    std::sort(all.begin(), all.end());
    const double p99 = all[99'000];
    double mean = 0;
    for (const double run : all) mean += run / 1e5;

    std::vector<double> tails;
    std::vector<double> means;
    int near = 0;
    for (int trial = 0; trial < 200; ++trial) {
      Estimates estimates = warmed(kOne, 9ms);
      TimePoint now = kStart;
      for (int i = 0; i < 200; ++i) {
        now += 10ms;
        estimates.add(kOne, Duration(std::llround(sample.draw(random) * 1e6)), now);
      }
      const Estimate e = estimates.predict(kOne, now);
      tails.push_back(to_ms(e.tail) / p99);
      means.push_back(to_ms(e.mean) / mean);
      near += std::abs(tails.back() - 1) < 0.25 ? 1 : 0;
    }
    std::sort(tails.begin(), tails.end());
    std::sort(means.begin(), means.end());
    EXPECT_NEAR(tails[100], 1, 0.1) << sample.name << ", the middle one of 200";
    EXPECT_GE(near, 180) << sample.name << ", of 200";
    EXPECT_NEAR(means[100], 1, 0.05) << sample.name;
  }
}

TEST(Estimates, TellHowMuchRunsDiffer) {
  Estimates estimates = warmed();
  TimePoint now = kStart;
  for (int i = 0; i < 1000; ++i) estimates.add(kOne, i % 2 == 0 ? 10ms : 30ms, now += 1ms);
  EXPECT_NEAR(to_ms(estimates.predict(kOne, now).deviation), 10, 0.2);
}

TEST(Estimates, AnOutlierHardlyCountsInTheMeanAndLeavesTheTailSoon) {
  Estimates estimates = warmed();
  TimePoint now = feed(estimates, kOne, 300, 10ms, kStart);
  estimates.add(kOne, 60s, now);
  EXPECT_LT(estimates.predict(kOne, now).mean, 11ms);
  EXPECT_LT(estimates.predict(kOne, now).tail, 11ms) << "less than one in a hundred";
}

TEST(Estimates, AnOutlierRightAfterTheWarmUpIsBoundedByIt) {
  Estimates estimates = warmed();
  estimates.add(kOne, 60s, kStart);
  EXPECT_NEAR(to_ms(estimates.predict(kOne, kStart).mean), (3 * 10 + 40) / 4.0, 0.01);
}

TEST(Estimates, AnOutlierHealsWhenOneRequestASecondIsLetThrough) {
  Estimates estimates = warmed();
  TimePoint now = feed(estimates, kOne, 60, 10ms, kStart, 1s);
  estimates.add(kOne, 60s, now);
  EXPECT_GT(estimates.predict(kOne, now).tail, 50s);
  now = feed(estimates, kOne, 11, 10ms, now, 1s);
  EXPECT_LT(estimates.predict(kOne, now).tail, 12ms);
  EXPECT_LT(estimates.predict(kOne, now).mean, 12ms);
}

TEST(Estimates, ASlowTimeHealsWhenOneRequestASecondIsLetThrough) {
  Estimates estimates = warmed();
  TimePoint now = feed(estimates, kOne, 1000, 800ms, kStart, 10ms);
  now = feed(estimates, kOne, 100, 10ms, now, 1s);
  EXPECT_LT(estimates.predict(kOne, now).tail, 20ms);
  EXPECT_LT(estimates.predict(kOne, now).mean, 20ms);
}

TEST(Estimates, ASlowLevelShowsInAFewRuns) {
  Estimates estimates = warmed();
  TimePoint now = feed(estimates, kOne, 1000, 10ms, kStart);
  now = feed(estimates, kOne, 4, 100ms, now);
  EXPECT_GT(estimates.predict(kOne, now).tail, 90ms);
}

TEST(Estimates, WithoutOutcomesTheyFallBackToTheWarmUpByHalfEachTenSeconds) {
  Estimates estimates = warmed();
  const TimePoint now = feed(estimates, kOne, 2000, 90ms, kStart);
  const Estimate fed = estimates.predict(kOne, now);
  for (const int halves : {1, 2, 3}) {
    const Estimate later = estimates.predict(kOne, now + halves * 10s);
    EXPECT_NEAR(to_ms(later.mean), 10 + to_ms(fed.mean - 10ms) / std::exp2(halves), 0.01);
    EXPECT_NEAR(to_ms(later.tail), 10 + to_ms(fed.tail - 10ms) / std::exp2(halves), 0.01);
  }
  EXPECT_EQ(estimates.predict(kOne, now + 24h).mean, 10ms);
}

TEST(Estimates, OneRunAfterALongPauseIsNotTheWholeTruth) {
  Estimates estimates = warmed();
  TimePoint now = feed(estimates, kOne, 1000, 10ms, kStart);
  now += 1h;
  estimates.add(kOne, 30ms, now);
  EXPECT_NEAR(to_ms(estimates.predict(kOne, now).mean), 15, 0.5) << "the warm-up counts thrice";
  now = feed(estimates, kOne, 60, 30ms, now);
  EXPECT_GT(estimates.predict(kOne, now).mean, 29ms);
}

TEST(Estimates, AnEarlierTimeThanTheLastCountsAsThat) {
  Estimates estimates = warmed();
  estimates.add(kOne, 10ms, kStart + 1h);
  estimates.add(kOne, 30ms, kStart);
  EXPECT_NEAR(to_ms(estimates.predict(kOne, kStart + 1h).mean), 14, 0.1) << "three, one and one";
}

TEST(Estimates, AnotherBatchIsScaledFromItsNeighbours) {
  Estimates estimates;
  for (int i = 0; i < 5; ++i) {
    estimates.warm_up({2, 7}, 20ms);
    estimates.warm_up({8, 7}, 50ms);
  }
  EXPECT_EQ(estimates.predict({1, 7}, kStart).mean, 10ms);
  EXPECT_EQ(estimates.predict({4, 7}, kStart).mean, 30ms) << "a third of the way";
  EXPECT_EQ(estimates.predict({16, 7}, kStart).mean, 100ms);
  EXPECT_EQ(estimates.predict({16, 7}, kStart).tail, 100ms);
  EXPECT_EQ(estimates.predict({4, 7}, kStart).outcomes, 0u);
}

TEST(Estimates, AnotherShapeIsLikeAllRuns) {
  Estimates estimates = warmed({1, 7}, 10ms);
  TimePoint now = feed(estimates, {1, 7}, 500, 10ms, kStart);
  now = feed(estimates, {1, 8}, 500, 30ms, now);
  const Estimate e = estimates.predict({4, 9}, now);
  EXPECT_GT(e.mean, 22ms) << "the later ones weigh more";
  EXPECT_LT(e.mean, 30ms);
  EXPECT_GT(e.tail, 28ms);
  EXPECT_EQ(e.outcomes, 0u);
}

TEST(Estimates, ASizeThatWasNeverWarmedUpFallsBackToItsNeighbours) {
  Estimates estimates = warmed({1, 7}, 10ms);
  TimePoint now = feed(estimates, {1, 7}, 1000, 90ms, kStart);  // a bad time when it came first
  now = feed(estimates, {4, 7}, 2000, 200ms, now);
  EXPECT_GT(estimates.predict({4, 7}, now).mean, 199ms);
  EXPECT_EQ(estimates.predict({4, 7}, now + 24h).mean, 40ms);
}

TEST(Estimates, AShapeThatWasNeverWarmedUpFallsBackToAllThatWas) {
  Estimates estimates = warmed({1, 7}, 10ms);
  const TimePoint now = feed(estimates, {1, 8}, 1000, 90ms, kStart);
  EXPECT_GT(estimates.predict({1, 8}, now).mean, 89ms);
  EXPECT_EQ(estimates.predict({1, 8}, now + 24h).mean, 10ms);
  EXPECT_EQ(estimates.predict({4, 8}, now + 24h).mean, 40ms) << "in proportion";
}

TEST(Estimates, ProbesOutlastABadMomentOfTheWarmUp) {
  Estimates estimates;
  for (const Duration run : {10ms, 10ms, 500ms}) estimates.warm_up(kOne, run);
  ASSERT_EQ(estimates.predict(kOne, kStart).tail, 500ms);
  for (int i = 0; i < 60; ++i) estimates.probe(kOne, 10ms);
  EXPECT_NEAR(to_ms(estimates.predict(kOne, kStart).mean), 10, 0.5);
  EXPECT_LT(estimates.predict(kOne, kStart).tail, 12ms);
  EXPECT_LT(estimates.predict(kOne, kStart).deviation, 10ms);
  estimates.probe(kOne, 80ms);
  EXPECT_EQ(estimates.predict(kOne, kStart).tail, 80ms);
}

TEST(Estimates, GoodProbesOutweighWhatWasSlowBefore) {
  Estimates estimates = warmed();
  const TimePoint now = feed(estimates, kOne, 500, 250ms, kStart);
  ASSERT_GT(estimates.predict(kOne, now + 8s).mean, 100ms);
  for (int i = 0; i < 30; ++i) estimates.probe(kOne, 10ms);
  Estimate e = estimates.predict(kOne, now + 8s);
  EXPECT_LT(e.mean, 15ms);
  EXPECT_LT(e.tail, 15ms);
  EXPECT_EQ(e.outcomes, 500u) << "probes are none";
  estimates.add(kOne, 10ms, now + 8s);
  e = estimates.predict(kOne, now + 8s);
  EXPECT_LT(e.mean, 160ms) << "nor does it come back at the next outcome";
  for (int i = 0; i < 10'000; ++i) estimates.probe(kOne, 10ms);
  estimates.add(kOne, 10ms, now + 9s);
  EXPECT_NEAR(to_ms(estimates.predict(kOne, now + 9s).mean), 10, 0.1);
}

TEST(Estimates, ASizeWithoutAnyNeighbourKeepsWhatItMeasured) {
  Estimates estimates;
  const TimePoint now = feed(estimates, kOne, 50, 20ms, kStart);
  EXPECT_EQ(estimates.predict(kOne, now + 24h).mean, 20ms);
}

TEST(Estimates, ForgetTheLeastUsedSizesWhenThereAreTooMany) {
  Estimates estimates = warmed({1, 7}, 10ms);
  feed(estimates, {1, 99}, 100, 30ms, kStart);
  for (std::uint64_t shape = 1000; shape < 5000; ++shape) {
    estimates.add({1, shape}, 500ms, kStart + shape * 1ms);
    EXPECT_LE(estimates.sizes(), Estimates::kMaxSizes);
  }
  EXPECT_EQ(estimates.predict({1, 7}, kStart).mean, 10ms) << "of the warm-up";
  EXPECT_EQ(estimates.predict({1, 99}, kStart + 1s).outcomes, 100u) << "often used";
  EXPECT_EQ(estimates.predict({1, 1000}, kStart).outcomes, 0u) << "forgotten";
  EXPECT_EQ(estimates.predict({1, 4999}, kStart).outcomes, 1u) << "the latest";
}

TEST(Estimates, FormerUseIsForgottenInTime) {
  Estimates estimates;
  feed(estimates, {1, 99}, 8, 30ms, kStart);
  for (std::uint64_t shape = 1000; shape < 20'000; ++shape) {
    estimates.add({1, shape}, 500ms, kStart + 1s);
    estimates.add({1, shape}, 500ms, kStart + 1s);
  }
  EXPECT_EQ(estimates.predict({1, 99}, kStart + 1s).outcomes, 0u);
}

TEST(Estimates, AreKeptWithinTheirBoundWhenAllAreOfTheWarmUp) {
  Estimates estimates;
  for (std::uint32_t samples = 1; samples < 3 * Estimates::kMaxSizes; ++samples) {
    estimates.warm_up({samples, 7}, 10ms);
    EXPECT_LE(estimates.sizes(), Estimates::kMaxSizes);
  }
}

TEST(Estimates, SurviveAYearOfSilenceAndAbsurdRuns) {
  Estimates estimates = warmed();
  TimePoint now = kStart;
  for (const Duration run : {Duration(0ns), Duration(1ns), Duration(24h), Duration(10ms)}) {
    now += 24h * 365;
    estimates.add(kOne, run, now);
    const Estimate e = estimates.predict(kOne, now);
    EXPECT_GE(e.tail, e.mean);
    EXPECT_GE(e.mean, 0ns);
  }
  now = feed(estimates, kOne, 100'000, 10ms, now, 100us);
  EXPECT_NEAR(to_ms(estimates.predict(kOne, now).mean), 10, 0.1);
}

}  // namespace
}  // namespace gradus::ladder
