// What docs/policy.md promises under any fault, held against a GPU that flaps for a day.
#include <map>
#include <string>

#include "unit/simulate/stories.h"

namespace gradus::simulate {
namespace {

constexpr std::uint32_t kRelapsesAtCap = 5;  // 30 s x 2^5 is over 600 s

bool is_soft(ladder::Cause cause) {
  using ladder::Cause;
  return cause == Cause::kFailures || cause == Cause::kErrorRate || cause == Cause::kSlow ||
         cause == Cause::kOverload;
}

bool is_climb(ladder::Cause cause) {
  return cause == ladder::Cause::kPromoted || cause == ladder::Cause::kArrived;
}

/// "": every bound held.
std::string broken_bound(const Outcome& outcome) {
  std::map<int, std::vector<Duration>> promotions;
  std::optional<Duration> last_fall;
  for (const Move& move : outcome.moves) {
    const std::string when = " at " + std::to_string(to_ms(move.at) / 1000) + " s";
    if (!is_climb(move.transition.cause)) {
      if (is_soft(move.transition.cause) && last_fall && move.at - *last_fall < 60s) {
        return "a soft demotion within a cooldown" + when;
      }
      last_fall = move.at;
      continue;
    }
    auto& times = promotions[*move.transition.to];
    const auto recent =
        1 + std::ranges::count_if(times, [&](Duration at) { return move.at - at < 600s; });
    times.push_back(move.at);
    if (recent > 4) return "more than 4 promotions in 600 s" + when;
    if (move.relapses >= kRelapsesAtCap && recent > 1) {
      return "more than 1 promotion in 600 s, with the hold at its cap," + when;
    }
  }
  return "";
}

Outcome flap(Duration period, Trouble what, Duration lasts) {
  Scenario scenario = two_levels(0.5, lasts);
  scenario.faults = {{.what = what, .at = 30s, .lasts = period / 2, .every = period, .factor = 30}};
  return run(scenario);
}

void expect_bounds(Duration period, Trouble what, Duration lasts) {
  const Outcome outcome = flap(period, what, lasts);
  const std::string story =
      std::string(to_string(what)) + " every " + std::to_string(to_ms(period) / 1000) + " s";
  EXPECT_EQ(broken_bound(outcome), "") << story;
  EXPECT_EQ(outcome.count(Ending::kFailed), 0U) << story;
  EXPECT_EQ(outcome.count(Ending::kRefused), 0U) << story;
  EXPECT_EQ(outcome.count(Ending::kMissed), 0U) << story;
  EXPECT_GT(outcome.answered_by[1], outcome.requests / 4) << story;  // the fault was felt
}

TEST(AFlappingGpu, StaysWithinTheBoundsForADay) {
  if (!long_tests()) {
    expect_bounds(1s, Trouble::kLost, 2h);
    expect_bounds(100s, Trouble::kLost, 6h);
    expect_bounds(10min, Trouble::kErrors, 6h);
    return;
  }
  for (const Duration period :
       {1s, 2s, 5s, 9s, 20s, 31s, 45s, 61s, 70s, 90s, 125s, 180s, 241s, 300s, 420s, 600s}) {
    for (const Trouble what : {Trouble::kLost, Trouble::kErrors, Trouble::kSlow, Trouble::kHang}) {
      expect_bounds(period, what, 24h);
    }
  }
}

TEST(AFlappingGpu, IsTriedLessOftenTheMoreItRelapses) {
  const Outcome outcome = flap(100s, Trouble::kLost, 2h);
  const auto relapses = std::ranges::max(outcome.moves, {}, &Move::relapses).relapses;
  EXPECT_EQ(relapses, kRelapsesAtCap);
  // 72 times it could have come back.
  EXPECT_LT(moves_by(outcome, ladder::Cause::kPromoted), 20U);
  EXPECT_GT(moves_by(outcome, ladder::Cause::kPromoted), 5U);
}

TEST(EveryRequest, EndsByItsDeadlineAndNeverRunsAfterIt) {
  std::uint64_t missed = 0;
  for (std::uint64_t seed = 1; seed <= (long_tests() ? 200 : 8); ++seed) {
    Random random(seed);
    Scenario scenario = two_levels(50 + 300 * random.uniform(), 30s);
    scenario.seed = seed;
    scenario.deadline = std::chrono::duration_cast<Duration>(10ms + 200ms * random.uniform());
    scenario.max_queue_size = 1 + static_cast<std::uint32_t>(random.next() % 100);
    scenario.levels[0].max_batch_size = 1 + static_cast<std::uint32_t>(random.next() % 8);
    scenario.levels[0].each_more = random.uniform();
    const auto what = static_cast<Trouble>(random.next() % 5);
    scenario.faults = {{.what = what, .at = 5s, .lasts = 3s, .every = 7s}};
    for (const Rule& rule : kRules) {
      const Outcome outcome = run(scenario, rule);
      EXPECT_EQ(outcome.ended_late, 0U) << rule.name << ", seed " << seed;
      EXPECT_EQ(outcome.expired_runs, 0U) << rule.name << ", seed " << seed;
      EXPECT_GT(outcome.requests, 1000U);
      missed += outcome.count(Ending::kMissed);
    }
  }
  EXPECT_GT(missed, 1000U);  // there were deadlines to keep
}

}  // namespace
}  // namespace gradus::simulate
