// Predictions against a simulated queue, and where they must be sure.
#include "ladder/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <vector>

namespace gradus::ladder {
namespace {

using namespace std::chrono_literals;

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
Duration duration(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

/// How much runs differ; mean 1.
enum class Spread { kNone, kLittle, kMuch, kTwoKinds };

double draw(Spread spread, std::mt19937_64& random) {
  const auto lognormal = [&](double sigma) {
    return std::lognormal_distribution<double>(-sigma * sigma / 2, sigma)(random);
  };
  switch (spread) {
    case Spread::kNone:
      return 1;
    case Spread::kLittle:
      return lognormal(0.2);
    case Spread::kMuch:
      return lognormal(0.7);
    case Spread::kTwoKinds:  // one in ten takes four times as long
      return (random() % 10 == 0 ? 4.0 : 1.0) / 1.3;
  }
  std::abort();
}

/// What a level with this spread would have measured.
Estimate measured(double mean, Spread spread) {
  std::mt19937_64 random(5);
  std::vector<double> runs(100'000);
  double sum = 0;
  double squares = 0;
  for (double& run : runs) {
    run = mean * draw(spread, random);
    sum += run;
    squares += run * run;
  }
  const double n = static_cast<double>(runs.size());
  std::nth_element(runs.begin(), runs.begin() + 99'000, runs.end());
  return {duration(sum / n), duration(std::sqrt(std::max(0.0, squares / n - sum * sum / n / n))),
          duration(runs[99'000]), 1000};
}

struct Level {
  std::uint32_t instances;
  std::uint32_t most;                     // requests in a run
  std::function<double(double)> mean_of;  // s, of a run with so many
  Spread spread;
};

std::vector<BatchRun> runs_of(const Level& level) {
  std::vector<BatchRun> runs;
  for (std::uint32_t n = 1; n < level.most; n *= 2) {
    runs.push_back({n, measured(level.mean_of(n), level.spread)});
  }
  runs.push_back({level.most, measured(level.mean_of(level.most), level.spread)});
  return runs;
}

/// The p99 of requests that come at random and are taken, whenever an instance is idle, as many as
/// fit in a run.
double simulated_p99(const Level& level, double arrivals) {
  std::mt19937_64 random(17);
  std::exponential_distribution<double> gap(arrivals);
  std::priority_queue<double, std::vector<double>, std::greater<>> idle_from;
  for (std::uint32_t i = 0; i < level.instances; ++i) idle_from.push(0);
  std::deque<double> waiting;
  std::vector<double> took;
  double next = gap(random);
  while (took.size() < 200'000) {
    const double idle = idle_from.top();
    while (next <= idle || waiting.empty()) {
      waiting.push_back(next);
      next += gap(random);
    }
    idle_from.pop();
    const double begins = std::max(idle, waiting.front());
    const std::size_t size = std::min<std::size_t>(waiting.size(), level.most);
    const double ends =
        begins + level.mean_of(static_cast<double>(size)) * draw(level.spread, random);
    for (std::size_t i = 0; i < size; ++i) {
      took.push_back(ends - waiting.front());
      waiting.pop_front();
    }
    idle_from.push(ends);
  }
  const auto p99 = took.begin() + static_cast<std::ptrdiff_t>(took.size() * 99 / 100);
  std::nth_element(took.begin(), p99, took.end());
  return *p99;
}

double constant(double) { return 0.010; }
double accelerator(double n) { return 0.004 + 0.0005 * n; }  // batches cost little more
double processor(double n) { return 0.002 + 0.010 * n; }     // batches gain little

TEST(Predict, IsNearASimulatedQueue) {
  const std::vector<std::pair<std::string, Level>> levels = {
      {"one by one", {1, 1, constant, Spread::kLittle}},
      {"one by one, constant", {1, 1, constant, Spread::kNone}},
      {"one by one, varying", {1, 1, constant, Spread::kMuch}},
      {"one by one, two kinds", {1, 1, constant, Spread::kTwoKinds}},
      {"two instances", {2, 1, constant, Spread::kLittle}},
      {"four instances, varying", {4, 1, constant, Spread::kMuch}},
      {"accelerator", {1, 32, accelerator, Spread::kLittle}},
      {"accelerator, varying", {1, 32, accelerator, Spread::kMuch}},
      {"two accelerators", {2, 16, accelerator, Spread::kLittle}},
      {"processor", {1, 8, processor, Spread::kLittle}},
      {"processor, two instances", {2, 8, processor, Spread::kTwoKinds}},
  };
  for (const auto& [name, level] : levels) {
    const std::vector<BatchRun> runs = runs_of(level);
    const double capacity = level.instances * level.most / level.mean_of(level.most);
    for (const double used : {0.3, 0.5, 0.7, 0.8, 0.9}) {
      const double real = simulated_p99(level, used * capacity);
      const double said = seconds(
          predict_p99({.arrivals = used * capacity, .instances = level.instances, .runs = runs}));
      EXPECT_GT(said / real, 0.65) << name << " at " << used << ": " << said << " s of " << real;
      EXPECT_LT(said / real, 1.45) << name << " at " << used << ": " << said << " s of " << real;
    }
  }
}

TEST(Predict, NeverCallsAnOverloadedLevelFine) {
  for (const std::uint32_t instances : {1u, 3u}) {
    for (const std::uint32_t most : {1u, 8u}) {
      const std::vector<BatchRun> runs = runs_of({instances, most, accelerator, Spread::kLittle});
      const double capacity = instances * most / seconds(runs.back().run.mean);
      for (const double used : {1.0, 1.01, 2.0, 1000.0}) {
        EXPECT_EQ(predict_p99({.arrivals = used * capacity, .instances = instances, .runs = runs}),
                  kCannotCarry)
            << used;
      }
      EXPECT_GT(predict_p99({.arrivals = 0.999 * capacity, .instances = instances, .runs = runs}),
                20 * runs.back().run.tail)
          << "nearly as bad";
    }
  }
}

TEST(Predict, WithoutLoadItIsTheTailOfARun) {
  const std::vector<BatchRun> runs = {{1, {10ms, 2ms, 16ms, 100}}, {4, {13ms, 3ms, 20ms, 100}}};
  EXPECT_NEAR(seconds(predict_p99({.arrivals = 0, .runs = runs})), 0.016, 1e-5);
  const std::vector<BatchRun> rare = {{1, {10ms, 30ms, 200ms, 100}}};
  EXPECT_NEAR(seconds(predict_p99({.arrivals = 0, .runs = rare})), 0.200, 1e-5)
      << "however few runs take so long";
}

TEST(Predict, GrowsWithTheLoadAndShrinksWithInstances) {
  const std::vector<BatchRun> runs = runs_of({1, 8, accelerator, Spread::kLittle});
  Duration before{};
  for (double arrivals = 0; arrivals < 1200; arrivals += 50) {
    const Duration one = predict_p99({.arrivals = arrivals, .instances = 1, .runs = runs});
    EXPECT_GE(one, before) << arrivals;
    EXPECT_LE(predict_p99({.arrivals = arrivals, .instances = 4, .runs = runs}), one) << arrivals;
    before = one;
  }
}

TEST(Predict, BatchesCarryWhatSingleRunsDoNot) {
  const std::vector<BatchRun> batches = {{1, {10ms, 0ms, 10ms, 100}}, {8, {20ms, 0ms, 20ms, 100}}};
  EXPECT_EQ(predict_p99({.arrivals = 200, .runs = std::span(batches).first(1)}), kCannotCarry);
  const Duration with_batches = predict_p99({.arrivals = 200, .runs = batches});
  EXPECT_GT(with_batches, 20ms) << "a run under way, and its own";
  EXPECT_LT(with_batches, 60ms);
}

TEST(Predict, WhatWaitsIsWorkedOffFirst) {
  const std::vector<BatchRun> runs = {{1, {10ms, 1ms, 12ms, 100}}, {4, {20ms, 2ms, 24ms, 100}}};
  const auto with_backlog = [&](double backlog) {
    return predict_p99({.arrivals = 10, .backlog = backlog, .instances = 2, .runs = runs});
  };
  EXPECT_LT(with_backlog(0), 14ms);
  EXPECT_EQ(with_backlog(800), 2s + 12ms) << "100 runs of 20 ms for each instance";
}

TEST(Busy, CountsTheInstancesInUseAndForgets) {
  Busy busy;
  TimePoint now{};
  for (int i = 0; i < 2000; ++i) busy.ran(15ms, now += 10ms);
  EXPECT_NEAR(busy.at(now), 1.5, 0.01) << "15 ms of work each 10 ms";
  EXPECT_NEAR(busy.at(now + 2s), 1.5 * std::exp(-1), 0.01);
}

TEST(Busy, WhatOthersUseMakesRunsLonger) {
  const Estimate run{10ms, 1ms, 20ms, 7};
  EXPECT_EQ(stretched(run, 4, 0).mean, 10ms);
  EXPECT_EQ(stretched(run, 4, 2).tail, 40ms);
  EXPECT_EQ(stretched(run, 4, 2).deviation, 2ms);
  EXPECT_EQ(stretched(run, 4, 2).outcomes, 7U);
  EXPECT_EQ(stretched(run, 4, 9).mean, 100ms) << "a tenth is left";
}

TEST(Predict, OfRunsThatTakeNoTimeIsNothing) {
  const std::vector<BatchRun> runs = {{1, {}}};
  EXPECT_EQ(predict_p99({.arrivals = 1000, .runs = runs}), 0ns);
}

}  // namespace
}  // namespace gradus::ladder
