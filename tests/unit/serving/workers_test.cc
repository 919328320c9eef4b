#include "serving/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "serving/model.h"
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
  EXPECT_FALSE(workers.of("gpu:0", {"fashion", "1", 0}));
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

const LevelName kGood{"good", "1", 0};
const LevelName kBad{"bad", "1", 0};

TEST(Workers, ALoadKillsTheWorkerOfOthersOnce) {
  std::atomic<int> lost = 0;
  std::atomic<int> back = 0;
  Workers workers(quick_workers(), steady_clock());
  const auto owner = std::make_shared<int>();
  const auto count_lost = [&](const auto&) { ++lost; };
  const auto count_back = [&] { ++back; };
  const auto good =
      workers.load("gpu:0", kGood, owner, fake(), 1s, {.lost = count_lost, .back = count_back});
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_FALSE(workers.load("gpu:0", kBad, owner, fake("crash"), 1s, {}));
  ASSERT_TRUE(worker::within(worker::kLong, [&] { return back == 1; }));
  const auto pid = workers.of("gpu:0", kGood)->pid;
  for (const char* device : {"gpu:0", "gpu:0", "gpu:1"}) {
    EXPECT_FALSE(workers.load(device, kBad, owner, fake("crash"), 1s, {}));
  }
  const LevelName next{"bad", "2", 0};
  EXPECT_FALSE(workers.load("gpu:0", next, owner, fake("crash"), 1s, {}));
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(workers.of("gpu:0", kGood)->pid, pid);
  EXPECT_THAT(places(workers),
              ElementsAre("gpu:0", "gpu:0 for bad version 1 level 0",
                          "gpu:0 for bad version 2 level 0", "gpu:1 for bad version 1 level 0"));
  EXPECT_EQ(workers.of("gpu:0", kBad)->device, "gpu:0 for bad version 1 level 0");
  EXPECT_EQ(workers.of("gpu:0", kBad)->last_fault->cause, worker::Loss::Cause::kDied);
}

TEST(LevelSlot, ALossThatAnEarlierLoadMetIsNotTheLatestOnes) {
  LevelSlot slot{config::LevelConfig{}};
  const auto first = slot.begin_load();
  EXPECT_TRUE(slot.set_gone(first));
  const auto second = slot.begin_load();
  EXPECT_FALSE(slot.gone());
  EXPECT_FALSE(slot.set_gone(first));
  EXPECT_FALSE(slot.gone());
  EXPECT_TRUE(slot.set_gone(second));
  EXPECT_FALSE(slot.set_back(first));
  EXPECT_TRUE(slot.gone());
  EXPECT_TRUE(slot.set_back(second));
  EXPECT_FALSE(slot.set_back(second)) << "it was back already";
}

TEST(Workers, WhoIsSuspectedIsLoadedAloneAndNoneElse) {
  Workers workers(quick_workers(), steady_clock());
  workers.suspect(kBad);
  const auto owner = std::make_shared<int>();
  const auto bad = workers.load("gpu:0", kBad, owner, fake(), 1s, {});
  const auto good = workers.load("gpu:0", kGood, owner, fake(), 1s, {});
  const auto other_level = workers.load("gpu:0", {"bad", "1", 1}, owner, fake(), 1s, {});
  ASSERT_TRUE(bad && good && other_level);
  EXPECT_TRUE(workers.is_suspect(kBad));
  EXPECT_FALSE(workers.is_suspect(kGood));
  EXPECT_NE(workers.of("gpu:0", kBad)->pid, workers.of("gpu:0", kGood)->pid);
  EXPECT_EQ(workers.of("gpu:0", kGood)->device, "gpu:0");
  EXPECT_EQ(workers.of("gpu:0", {"bad", "1", 1})->device, "gpu:0");
}

TEST(Workers, ALevelsOwnEndsWithTheLastOfItsOwners) {
  Workers workers(quick_workers(), steady_clock());
  workers.suspect(kBad);
  auto before = std::make_shared<int>();
  auto after = std::make_shared<int>();
  const auto good = workers.load("gpu:0", kGood, before, fake(), 1s, {});
  auto old = workers.load("gpu:0", kBad, before, fake(), 1s, {});
  auto bad = workers.load("gpu:0", kBad, after, fake(), 1s, {});
  ASSERT_TRUE(good && old && bad);
  const auto pid = workers.of("gpu:0", kBad)->pid;
  old->backend.reset();
  before.reset();
  workers.end_unowned();
  EXPECT_EQ(workers.of("gpu:0", kBad)->pid, pid);
  bad->backend.reset();
  after.reset();
  workers.end_unowned();
  EXPECT_THAT(places(workers), ElementsAre("gpu:0")) << "a device's stays";
}

}  // namespace
}  // namespace gradus::serving
