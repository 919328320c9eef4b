#include "serving/left_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

const Measured kGpu{.level = 0, .name = "gpu", .on_gpu = true, .quality = 1.0, .fastest = 10ms};
const Measured kCpu{.level = 1, .name = "cpu", .quality = 1.0, .fastest = 10ms};
const Measured kInt8{.level = 2, .name = "cpu-int8", .quality = 0.99, .fastest = 4ms};

Measured timed(Measured level, Duration fastest) {
  level.fastest = fastest;
  return level;
}

TEST(LeftOut, AQuickerWorseLevelStays) { EXPECT_FALSE(left_out(kInt8, kCpu)); }

TEST(LeftOut, AWorseLevelThatGainsNothingGoesAndSaysWhy) {
  EXPECT_EQ(left_out(timed(kInt8, 9500us), kCpu),
            "not over 10 % quicker than level 1 'cpu', whose quality is better: 9.500 ms a run "
            "against 10.000 ms");
  EXPECT_TRUE(left_out(timed(kInt8, 10ms), timed(kCpu, 11ms))) << "exactly 10 % is not over 10 %";
  EXPECT_FALSE(left_out(timed(kInt8, 10ms), timed(kCpu, 11001us)));
  EXPECT_TRUE(left_out(timed(kInt8, 30ms), kCpu));
}

TEST(LeftOut, AGpuThatIsSlowerThanTheCpuGoes) {
  EXPECT_EQ(left_out(timed(kGpu, 500ms), kCpu),
            "over 25 % slower than level 1 'cpu', whose quality is as good: 500.000 ms a run "
            "against 10.000 ms");
  EXPECT_FALSE(left_out(timed(kGpu, 12500us), kCpu)) << "exactly 25 % is not over 25 %";
}

TEST(LeftOut, AQuickGpuIsNoReasonToLackAFallback) {
  EXPECT_FALSE(left_out(kCpu, timed(kGpu, 1ms)));
  EXPECT_FALSE(left_out(kInt8, timed(kGpu, 1ms)));
}

TEST(LeftOut, AWorseLevelNeverPushesOutABetterOne) { EXPECT_FALSE(left_out(kCpu, kInt8)); }

TEST(LeftOut, WhatTheOperatorKeepsStays) {
  Measured kept = timed(kGpu, 500ms);
  kept.keep = true;
  EXPECT_FALSE(left_out(kept, kCpu));
}

}  // namespace
}  // namespace gradus::serving
