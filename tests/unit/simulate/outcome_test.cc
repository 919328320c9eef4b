#include <gtest/gtest.h>

#include <span>

#include "simulate/arrivals.h"
#include "simulate/faults.h"
#include "simulate/report.h"
#include "simulate/timeline.h"

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;
using ladder::Cause;

Move move(Duration at, int from, int to, Cause cause) {
  return {.at = at, .transition = {{}, from, to, cause, "because <it>"}};
}

Outcome some_outcome() {
  Outcome outcome;
  outcome.lasts = 60s;
  for (int i = 0; i < 60; ++i) {
    const Duration at = i * 1s;
    const bool by_level_0 = i < 20 || i >= 40;
    outcome.end(at, at + 1s, at + 10ms, Ending::kInTime, by_level_0 ? 0 : 1, by_level_0 ? 1 : 0.5);
    if (i == 20) outcome.end(at, at + 1s, at + 1s, Ending::kMissed, 0, 1);
    if (i == 21) outcome.end(at, at + 1s, at, Ending::kRefused, 0, 1);
    if (i == 21) outcome.end(at, at + 1s, at, Ending::kFailed, 0, 1);
  }
  outcome.moves = {move(20s, 0, 1, Cause::kHardLoss), move(30s, 1, 0, Cause::kPromoted),
                   move(35s, 0, 1, Cause::kSlow), move(40s, 1, 0, Cause::kPromoted)};
  return outcome;
}

TEST(Outcome, WeighsAnswersInTimeByQuality) {
  const Outcome outcome = some_outcome();
  EXPECT_EQ(outcome.requests, 63U);
  EXPECT_DOUBLE_EQ(outcome.goodput(), 1);
  EXPECT_DOUBLE_EQ(outcome.effective_accuracy(), 50.0 / 63);
  EXPECT_EQ(bad_seconds(outcome), 2U);
  EXPECT_EQ(recovery(outcome, 30s), 10s);
  EXPECT_FALSE(recovery(outcome, 58s));  // five seconds on end are not left
  EXPECT_EQ(outcome.ended_late, 0U);
}

TEST(Outcome, CountsFallsSoonAfterAClimbAsFlaps) {
  const Outcome outcome = some_outcome();
  // The first fall was from where it started.
  EXPECT_EQ(flaps(outcome, 600s), std::vector<Duration>{35s});
  EXPECT_TRUE(flaps(outcome, 5s).empty());
}

TEST(Latencies, AreRightToOnePercent) {
  Latencies latencies;
  EXPECT_EQ(latencies.percentile(0.5), Duration::zero());
  for (int i = 1; i <= 1000; ++i) latencies.add(i * 1ms);
  EXPECT_NEAR(to_ms(latencies.percentile(0.5)), 500, 8);
  EXPECT_NEAR(to_ms(latencies.percentile(0.99)), 990, 15);
}

TEST(Faults, ComeAgainAndOverlap) {
  Scenario scenario;
  scenario.levels.resize(2);
  scenario.faults = {
      {.level = 0, .what = Trouble::kSlow, .at = 10s, .lasts = 5s, .every = 20s, .times = 2},
      {.level = 0, .what = Trouble::kLost, .at = 33s, .lasts = 4s},
      {.level = 1, .what = Trouble::kHang, .at = 0s, .lasts = 1s}};
  const Faults faults(scenario, 0);
  EXPECT_EQ(faults.at(9s).factor, 1);
  EXPECT_EQ(faults.at(10s).factor, 5);
  EXPECT_EQ(faults.at(15s).factor, 1);
  EXPECT_EQ(faults.at(34s).factor, 5);
  EXPECT_TRUE(faults.at(34s).lost);
  EXPECT_EQ(faults.at(50s).factor, 1);  // twice only
  std::vector<Duration> changes;
  for (Duration at = faults.next_change(0s); at != Duration::max(); at = faults.next_change(at)) {
    changes.push_back(at);
  }
  EXPECT_EQ(changes, (std::vector<Duration>{10s, 15s, 30s, 33s, 35s, 37s}));
  scenario.lasts = 100s;
  EXPECT_EQ(last_disturbance(scenario), 37s);
}

TEST(Arrivals, StepTheirRateAndKeepRecordsAndBursts) {
  Scenario scenario;
  scenario.lasts = 200s;
  scenario.deadline = 1s;
  scenario.arrivals.rates = {{0s, 10}, {100s, 100}};
  scenario.arrivals.burst_every = 50s;
  scenario.arrivals.burst_size = 7;
  scenario.arrivals.recorded = {{3s, 20ms}, {3s, {}}};
  ArrivalStream stream(scenario, 1);
  std::size_t early = 0, late = 0, bursts = 0, hurried = 0;
  Duration last{};
  while (const auto arrival = stream.next()) {
    EXPECT_GE(arrival->at, last);
    last = arrival->at;
    ++(arrival->at < 100s ? early : late);
    if (arrival->at % Duration(50s) == 0s) ++bursts;
    if (arrival->deadline == 20ms) ++hurried;
  }
  EXPECT_NEAR(static_cast<double>(early), 1000, 100);
  EXPECT_NEAR(static_cast<double>(late), 10'000, 300);
  EXPECT_EQ(bursts, 21U);
  EXPECT_EQ(hurried, 1U);
}

TEST(Reports, HoldTheNumbers) {
  Scenario scenario = *built_in("gpu-loss");
  scenario.lasts = 60s;
  scenario.faults = {{.what = Trouble::kLost, .at = 20s, .lasts = 10s}};
  const Result result{kGradus, some_outcome()};
  const std::string object = json(scenario, {}, std::span(&result, 1));
  for (const char* part : {"\"requests\": 63", "\"failed\": 1", "\"missed\": 1", "\"refused\": 1",
                           "\"goodput\": 1", "\"effective_accuracy\": 0.79", "\"transitions\": 4",
                           "\"flaps\": 1", "\"recovery_s\": 10", "\"cause\": \"hard_loss\""}) {
    EXPECT_NE(object.find(part), std::string::npos) << part << " in " << object;
  }
  const std::string rows = table(scenario, {}, std::span(&result, 1));
  EXPECT_NE(rows.find("95.238"), std::string::npos) << rows;
  EXPECT_NE(rows.find("hard_loss"), std::string::npos) << rows;

  const std::string picture = timeline(scenario, result.outcome, 600s);
  EXPECT_TRUE(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
  // The band of the fault: a third of the way in, a sixth wide.
  EXPECT_NE(picture.find("x=\"423.33\" y=\"50.00\" width=\"166.67\""), std::string::npos);
  EXPECT_EQ(picture.find("<it>"), std::string::npos);
}

}  // namespace
}  // namespace gradus::simulate
