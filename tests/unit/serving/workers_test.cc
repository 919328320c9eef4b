#include "serving/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradus::serving {
namespace {

using ::testing::ElementsAre;

config::LevelConfig level(const char* provider, std::vector<int> device_ids = {}) {
  config::LevelConfig level;
  level.providers = {{provider, {}}};
  level.device_ids = std::move(device_ids);
  return level;
}

TEST(Workers, LevelsOfOneDeviceShareAWorkerWhateverTheirProvider) {
  EXPECT_THAT(Workers::devices_of(level("CUDAExecutionProvider")), ElementsAre("gpu:0"));
  EXPECT_THAT(Workers::devices_of(level("WebGpuExecutionProvider", {0})), ElementsAre("gpu:0"));
  EXPECT_THAT(Workers::devices_of(level("CUDAExecutionProvider", {1, 0})),
              ElementsAre("gpu:1", "gpu:0"));
  EXPECT_THAT(Workers::devices_of(level("CPUExecutionProvider")), ElementsAre("cpu:0"));
}

TEST(Workers, NoneIsShownBeforeOneIsWanted) {
  const Workers workers({}, steady_clock());
  EXPECT_FALSE(workers.of("gpu:0"));
  EXPECT_TRUE(workers.all().empty());
}

}  // namespace
}  // namespace gradus::serving
