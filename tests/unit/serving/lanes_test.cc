#include "serving/lanes.h"

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace gradus::serving {
namespace {

TEST(Lanes, RunAsManyAtOnceAsHaveTheirCpus) {
  support::ManualClock clock;
  Lanes lanes(8, clock);
  config::LevelConfig level;
  const auto at_once = [&] { return lanes.lane_for("m", level, false)->allowed(); };
  EXPECT_EQ(at_once(), 8u);
  level.threads = 3;
  EXPECT_EQ(at_once(), 2u);
  level.execution_mode = config::ExecutionMode::kParallel;
  level.threads = 1;
  EXPECT_EQ(at_once(), 4u) << "a thread runs nodes, and one waits for it";
  level.threads = 8;
  EXPECT_EQ(at_once(), 1u);
  level.instances = 5;
  EXPECT_EQ(at_once(), 5u);
}

TEST(Lanes, AreSharedByLevelsWhoseRunsTakeOneCpu) {
  support::ManualClock clock;
  Lanes lanes(8, clock);
  const auto shared = lanes.lane_for("a", {}, false);
  EXPECT_EQ(lanes.lane_for("b", {}, false), shared);
  config::LevelConfig parallel;
  parallel.execution_mode = config::ExecutionMode::kParallel;
  EXPECT_NE(lanes.lane_for("b", parallel, false), shared);
}

}  // namespace
}  // namespace gradus::serving
