#include "serving/workers.h"

#include <gtest/gtest.h>

namespace gradus::serving {
namespace {

config::LevelConfig level(const char* provider, std::vector<int> device_ids = {}) {
  config::LevelConfig level;
  level.providers = {{provider, {}}};
  level.device_ids = std::move(device_ids);
  return level;
}

TEST(Workers, LevelsOfOneDeviceShareAWorkerWhateverTheirProvider) {
  EXPECT_EQ(Workers::device_of(level("CUDAExecutionProvider")), "gpu:0");
  EXPECT_EQ(Workers::device_of(level("WebGpuExecutionProvider", {0})), "gpu:0");
  EXPECT_EQ(Workers::device_of(level("CUDAExecutionProvider", {1, 0})), "gpu:1");
  EXPECT_EQ(Workers::device_of(level("CPUExecutionProvider")), "cpu:0");
}

TEST(Workers, NoneIsShownBeforeOneIsWanted) {
  const Workers workers({}, steady_clock());
  EXPECT_FALSE(workers.of("gpu:0"));
  EXPECT_TRUE(workers.all().empty());
}

}  // namespace
}  // namespace gradus::serving
