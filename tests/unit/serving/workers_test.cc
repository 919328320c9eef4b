#include "serving/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "unit/worker/started.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using worker::fake;

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
  EXPECT_FALSE(workers.of("gpu:0", "fashion version 1 level 0"));
  EXPECT_TRUE(workers.all().empty());
}

std::vector<std::string> places(const Workers& workers) {
  std::vector<std::string> places;
  for (const auto& worker : workers.all()) places.push_back(worker.device);
  return places;
}

worker::Supervisor::Options quick_workers() {
  worker::Supervisor::Options options;
  options.worker = worker::child();
  options.worker.executable = GRADUS_WORKER_CHILD;
  options.restart.first = 1ms;
  return options;
}

TEST(Workers, ALoadKillsTheWorkerOfOthersOnce) {
  std::atomic<int> lost = 0;
  std::atomic<int> back = 0;
  Workers workers(quick_workers(), steady_clock());
  const auto count_lost = [&](const auto&) { ++lost; };
  const auto count_back = [&] { ++back; };
  const auto good =
      workers.load("gpu:0", "good", fake(), 1s, {.lost = count_lost, .back = count_back});
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_FALSE(workers.load("gpu:0", "bad", fake("crash"), 1s, {}));
  ASSERT_TRUE(worker::within(worker::kLong, [&] { return back == 1; }));
  const auto pid = workers.of("gpu:0", "good")->pid;
  for (const char* device : {"gpu:0", "gpu:0", "gpu:1"}) {
    EXPECT_FALSE(workers.load(device, "bad", fake("crash"), 1s, {}));
  }
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(workers.of("gpu:0", "good")->pid, pid);
  EXPECT_THAT(places(workers), ElementsAre("gpu:0", "gpu:0 for bad", "gpu:1 for bad"));
  EXPECT_EQ(workers.of("gpu:0", "bad")->device, "gpu:0 for bad");
  EXPECT_EQ(workers.of("gpu:0", "bad")->last_fault->cause, worker::Loss::Cause::kDied);
}

TEST(Workers, WhoIsSuspectedIsLoadedAloneAndNoneElse) {
  Workers workers(quick_workers(), steady_clock());
  workers.suspect("bad");
  const auto bad = workers.load("gpu:0", "bad", fake(), 1s, {});
  const auto good = workers.load("gpu:0", "good", fake(), 1s, {});
  ASSERT_TRUE(bad && good);
  EXPECT_NE(workers.of("gpu:0", "bad")->pid, workers.of("gpu:0", "good")->pid);
  EXPECT_EQ(workers.of("gpu:0", "good")->device, "gpu:0");
}

}  // namespace
}  // namespace gradus::serving
