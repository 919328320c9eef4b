#include <span>

#include "simulate/report.h"
#include "unit/simulate/stories.h"

namespace gradus::simulate {
namespace {

using ladder::Cause;

TEST(World, TheSameSeedGivesTheSameOutcome) {
  Scenario scenario = *built_in("gpu-loss");
  scenario.lasts = 3min;
  const auto report = [&] {
    const Result result{kGradus, run(scenario)};
    return json(scenario, {}, std::span(&result, 1));
  };
  const std::string first = report();
  EXPECT_EQ(report(), first);
  scenario.seed = 2;
  EXPECT_NE(report(), first);
}

TEST(World, WithoutFaultsLevel0AnswersEverything) {
  const Outcome outcome = run(two_levels(20, 2min));
  EXPECT_TRUE(outcome.moves.empty());
  EXPECT_EQ(outcome.answered_by[0], outcome.requests);
  EXPECT_EQ(outcome.effective_accuracy(), 1.0);
  EXPECT_NEAR(outcome.goodput(), 20, 1);
}

TEST(World, ALostLevelCostsNoRequestAndComesBackAfterItsHold) {
  Scenario scenario = two_levels(20, 3min);
  scenario.faults = {{.what = Trouble::kLost, .at = 30s, .lasts = 20s}};
  const Outcome outcome = run(scenario);
  EXPECT_EQ(not_in_time(outcome), 0U);
  ASSERT_EQ(outcome.moves.size(), 2U);
  EXPECT_EQ(outcome.moves[0].transition.cause, Cause::kHardLoss);
  EXPECT_EQ(outcome.moves[0].at, 30s);
  EXPECT_EQ(outcome.moves[1].transition.cause, Cause::kPromoted);
  EXPECT_GT(outcome.moves[1].at, 50s + 30s);  // the hold, and the canary's two stages
  EXPECT_LT(outcome.moves[1].at, 50s + 30s + 60s);
  EXPECT_LT(outcome.effective_accuracy(), 1.0);
  EXPECT_GT(outcome.effective_accuracy(), 0.9);
}

TEST(World, AlternatingFailuresDemote) {
  Scenario scenario = two_levels(20, 1min);
  scenario.faults = {{.what = Trouble::kAlternating, .at = 10s, .lasts = 50s}};
  const Outcome outcome = run(scenario);
  EXPECT_EQ(not_in_time(outcome), 0U);
  EXPECT_EQ(moves_by(outcome, Cause::kErrorRate), 1U);
}

TEST(World, NeitherAnIdleGapNorASlowNewShapeDemotes) {
  Scenario gaps = two_levels(0, 10min);
  gaps.arrivals.burst_every = 5s;
  gaps.arrivals.burst_size = 3;
  gaps.levels[0].wake = 400ms;  // eight targets
  const Outcome idle = run(gaps);
  EXPECT_GT(idle.requests, 300U);
  EXPECT_TRUE(idle.moves.empty());

  Scenario shapes = two_levels(2, 10min);
  shapes.arrivals.shapes = 50;
  shapes.levels[0].first = 150ms;  // three targets
  const Outcome shaped = run(shapes);
  EXPECT_GT(shaped.requests, 1000U);
  EXPECT_TRUE(shaped.moves.empty());

  Scenario slow = two_levels(2, 10min);  // so long is slow where nothing excuses it
  slow.faults = {{.what = Trouble::kSlow, .at = 60s, .lasts = 60s, .factor = 15}};
  EXPECT_EQ(moves_by(run(slow), Cause::kSlow), 1U);
}

TEST(World, ASlowLevel0CostsOneRequestInAThousandAtMost) {
  Scenario scenario = two_levels(20, 10min);
  scenario.deadline = 100ms;
  scenario.faults = {{.what = Trouble::kSlow, .at = 2min, .lasts = 3min, .factor = 5}};
  double requests = 0;
  double late = 0;
  for (scenario.seed = 1; scenario.seed <= 3; ++scenario.seed) {
    const Outcome outcome = run(scenario);
    requests += static_cast<double>(outcome.requests);
    late += static_cast<double>(not_in_time(outcome));
  }
  EXPECT_LE(late, requests / 1000);
  EXPECT_LT(run(scenario, kRules[0]).share(Ending::kInTime), 0.9);
}

TEST(World, AHangIsAnsweredInTimeByHedging) {
  Scenario scenario = two_levels(50, 40s);
  scenario.devices[0].instances = 8;
  scenario.levels[0].max_run = 5s;
  scenario.levels[1].p99 = scenario.levels[1].mean;  // the hedge comes at the last moment
  scenario.faults = {{.what = Trouble::kHang, .at = 20s, .lasts = 10s}};
  const Outcome hedged = run(scenario);
  EXPECT_GE(hedged.hedges_won, 8U);
  config::PolicyConfig off;
  off.hedge_share = 0;
  const Outcome waited = run(scenario, kGradus, off);
  EXPECT_EQ(waited.hedges, 0U);
  EXPECT_GE(not_in_time(waited), not_in_time(hedged) + 8U);
  EXPECT_LE(not_in_time(hedged), hedged.requests / 400);
}

TEST(World, RunsThatNobodyWaitsForEndOnTheProcessorOnly) {
  for (const char* device : {"cpu", "gpu"}) {
    Scenario scenario = two_levels(2, 5min);
    scenario.levels.erase(scenario.levels.begin());
    scenario.levels[0].device = device;
    scenario.levels[0].mean = 2s;  // beyond every deadline
    scenario.devices = {{"gpu", 4}, {"cpu", 4}};
    config::PolicyConfig policy;
    const Outcome outcome = run(scenario, kRules[0], policy);
    EXPECT_GT(outcome.count(Ending::kMissed), 500U);
    // Four instances for 1 s each, or for 2 s.
    EXPECT_NEAR(static_cast<double>(outcome.executions), device[0] == 'c' ? 590 : 480, 60)
        << device;
  }
}

TEST(Rules, DoLessThanTheWholeLadder) {
  for (const char* name : {"gpu-loss", "gpu-slow", "load-step"}) {
    Scenario scenario = *built_in(name);
    scenario.lasts = 3min;
    const Outcome gradus = run(scenario);
    for (const Rule& rule : std::span(kRules).first(2)) {
      EXPECT_GT(gradus.share(Ending::kInTime), run(scenario, rule).share(Ending::kInTime) + 0.01)
          << name << ", " << rule.name;
    }
    EXPECT_GE(gradus.share(Ending::kInTime), run(scenario, kRules[2]).share(Ending::kInTime));
  }
}

TEST(Rules, NoneKnowsLevel0Alone) {
  Scenario scenario = two_levels(20, 1min);
  scenario.faults = {{.what = Trouble::kLost, .at = 30s, .lasts = 20s}};
  const Outcome outcome = run(scenario, kRules[0]);
  EXPECT_NEAR(outcome.share(Ending::kFailed), 1.0 / 3, 0.05);
  EXPECT_EQ(outcome.answered_by[1], 0U);
}

TEST(Rules, ThePublishedOneThrowsSlowAnswersAway) {
  Scenario scenario = two_levels(5, 1min);
  scenario.faults = {{.what = Trouble::kSlow, .at = 0s, .lasts = 60s, .factor = 10}};
  const Outcome outcome = run(scenario, kRules[1]);  // 100 ms at level 0, its target is 50 ms
  EXPECT_LT(outcome.answered_by[0], outcome.requests / 20);
  EXPECT_GT(outcome.executions, 2 * outcome.requests - outcome.requests / 10);
}

}  // namespace
}  // namespace gradus::simulate
