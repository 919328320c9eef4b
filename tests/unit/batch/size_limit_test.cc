#include "batch/size_limit.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gradus::batch {
namespace {

using namespace std::chrono_literals;

void succeed(SizeLimit& limit, std::uint32_t runs, std::uint32_t samples, Duration run = 1ms) {
  for (std::uint32_t i = 0; i < runs; ++i) limit.succeeded(samples, run);
}

TEST(SizeLimit, HalvesWhenThereIsNoMemoryAndNeverFallsBelowOne) {
  SizeLimit limit(8);
  limit.out_of_memory(64);
  EXPECT_EQ(limit.now(), 4U) << "a request in parts of the limit";
  limit.out_of_memory(1);
  EXPECT_EQ(limit.now(), 1U);
}

TEST(SizeLimit, GrowsByOneForEveryFiftyFullBatches) {
  SizeLimit limit(8);
  limit.out_of_memory(8);
  succeed(limit, SizeLimit::kGoodRuns - 1, 4);
  EXPECT_EQ(limit.now(), 4U);
  succeed(limit, 200, 3);
  EXPECT_EQ(limit.now(), 4U) << "smaller ones prove nothing";
  succeed(limit, 1, 4);
  EXPECT_EQ(limit.now(), 5U);
  for (std::uint32_t size = 5; size < 20; ++size) succeed(limit, SizeLimit::kGoodRuns, size);
  EXPECT_EQ(limit.now(), 8U) << "as configured, at most";
}

TEST(SizeLimit, ARunOverItsTargetHalvesItOnlyWhereThatIsAskedFor) {
  SizeLimit any(8);
  any.succeeded(8, 1h);
  EXPECT_EQ(any.now(), 8U);
  SizeLimit aimed(8, 10ms);
  aimed.succeeded(8, 10ms);
  EXPECT_EQ(aimed.now(), 8U);
  aimed.succeeded(6, 11ms);
  EXPECT_EQ(aimed.now(), 3U);
}

}  // namespace
}  // namespace gradus::batch
