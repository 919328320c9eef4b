// The policy's bounds under random fault traces in simulated time.
//   GRADUS_TRACES=100000 ladder_test --gtest_filter='Traces.*'    so many traces
//   GRADUS_TRACE_SEED=17 ladder_test --gtest_filter='Traces.*'    only that one
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "trace_world.h"

namespace gradus::ladder {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Traces, HoldTheBounds) {
  const std::uint64_t only = number_from("GRADUS_TRACE_SEED", 0);
  const std::uint64_t traces = number_from("GRADUS_TRACES", GRADUS_DEFAULT_TRACES);
  const std::uint64_t first = only > 0 ? only : 1;
  const std::uint64_t last = only > 0 ? only : traces;
  TraceTotals totals;
  int faults = 0;
  for (std::uint64_t seed = first; seed <= last && faults < 5; ++seed) {
    const std::string fault = TraceWorld(seed, totals).run();
    if (fault.empty()) continue;
    ++faults;
    ADD_FAILURE() << "GRADUS_TRACE_SEED=" << seed << " " << fault;
  }
  for (const auto& [cause, moves] : totals.moves) {
    RecordProperty(to_string(cause), std::to_string(moves));
  }
  RecordProperty("guaranteed", std::to_string(totals.guaranteed));
  if (only > 0 || traces < 200) return;

  // Traces that never get near a bound would show nothing.
  for (int cause = 0; cause <= static_cast<int>(Cause::kLeftOut); ++cause) {
    EXPECT_GT(totals.moves[static_cast<Cause>(cause)], 0u) << to_string(static_cast<Cause>(cause));
  }
  EXPECT_GT(totals.guaranteed, totals.requests / 4);
  EXPECT_EQ(totals.most_promotions, 4u) << "the bound is reached";
  EXPECT_GT(totals.promotions_at_cap, 0u);
  EXPECT_GT(totals.forced_up, 0u);
  EXPECT_GT(totals.cooldown_ended_open, 0u);
  EXPECT_GT(totals.late_promotions, 0u);
  EXPECT_GT(totals.dead_when_idle, 0u);
  EXPECT_GT(totals.could_not_carry, 0u);
}

}  // namespace
}  // namespace gradus::ladder
