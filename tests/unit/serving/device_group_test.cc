#include "serving/device_group.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "serving/lane.h"
#include "serving/level_devices.h"
#include "serving/level_loader.h"
#include "support/fake_backend.h"

namespace gradus::serving {
namespace {

using support::FakeBackend;
using support::FakeLevel;

class DeviceGroupTest : public ::testing::Test {
 protected:
  DeviceGroupTest() {
    for (int i = 0; i < 2; ++i) {
      devices_.push_back(std::make_shared<FakeLevel>());
      devices_.back()->factor = static_cast<float>(i + 2);
    }
  }

  std::unique_ptr<DeviceGroup> group(bool second_loaded = true, DeviceGroup::Told told = {}) {
    std::vector<std::unique_ptr<runtime::Backend>> members;
    members.push_back(std::make_unique<FakeBackend>(devices_[0]));
    members.push_back(second_loaded ? std::make_unique<FakeBackend>(devices_[1]) : nullptr);
    return std::make_unique<DeviceGroup>(roster_, std::move(members), std::move(told));
  }

  static Result<std::vector<Tensor>> run(DeviceGroup& group) {
    const std::size_t output = 0;
    return group.run(input(), {&output, 1});
  }
  static void probe(DeviceGroup& group) {
    const std::size_t output = 0;
    group.try_left_alone(input(), {&output, 1});
  }
  static std::span<const TensorView> input() {
    static const float kOne = 1;
    static const TensorView view{DType::kFp32, {1}, std::as_bytes(std::span(&kOne, 1))};
    return std::span(&view, 1);
  }
  void fail_on(int device, Code code, const std::string& text) {
    devices_.at(static_cast<std::size_t>(device))->before = [=]() -> Result<void> {
      return fail(code, text);
    };
  }
  void heal(int device) {
    devices_.at(static_cast<std::size_t>(device))->before = [] { return Result<void>(); };
  }

  std::vector<std::shared_ptr<FakeLevel>> devices_;
  std::shared_ptr<DeviceGroup::Roster> roster_ = std::make_shared<DeviceGroup::Roster>(2, 1);
};

TEST_F(DeviceGroupTest, TakesTurnsBetweenIdleDevices) {
  const auto both = group();
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(run(*both));
  EXPECT_EQ(devices_[0]->runs, 3);
  EXPECT_EQ(devices_[1]->runs, 3);
}

TEST_F(DeviceGroupTest, RunsOnWhatIsLeftWhenADeviceIsLost) {
  const auto both = group();
  EXPECT_EQ(roster_->set_living(0, false), 1U);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(run(*both));
  EXPECT_EQ(devices_[0]->runs, 0);
  EXPECT_EQ(devices_[1]->runs, 4);
  EXPECT_EQ(roster_->set_living(0, true), 2U);
  ASSERT_TRUE(run(*both));
  ASSERT_TRUE(run(*both));
  EXPECT_EQ(devices_[0]->runs, 1);
}

TEST_F(DeviceGroupTest, FailsAtOnceWhenNoneLives) {
  const auto both = group();
  roster_->set_living(0, false);
  EXPECT_EQ(roster_->set_living(1, false), 0U);
  const auto result = run(*both);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kNotFound);
}

TEST_F(DeviceGroupTest, ARunThatMeetsADeviceWhoseLossIsNotKnownYetGoesToAnother) {
  const auto both = group();
  devices_[0]->before = [] { return Result<void>(fail(Code::kNotFound, "worker 7 is gone")); };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(run(*both));
  EXPECT_EQ(devices_[1]->runs, 4);
  devices_[1]->before = devices_[0]->before;
  EXPECT_EQ(run(*both).error().code, Code::kNotFound) << "each is asked once";
}

TEST_F(DeviceGroupTest, WhatFailsOnOneDeviceIsRunOnAnother) {
  const auto both = group();
  fail_on(1, Code::kUnavailable, "CUDA failure 999: unknown error");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(run(*both));
  EXPECT_EQ(devices_[0]->runs, 4);
  EXPECT_GT(devices_[1]->runs, 0);
}

TEST_F(DeviceGroupTest, WhatNobodyWaitsForAnyMoreIsNotRunOnAnother) {
  runtime::Stop stop;
  for (const auto& device : devices_) {
    device->before = [&]() -> Result<void> {
      stop.request();
      return fail(Code::kUnavailable, "CUDA failure 999");
    };
  }
  const auto both = group();
  const std::size_t output = 0;
  const auto result = both->run(input(), {&output, 1}, &stop);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kUnavailable);
  EXPECT_EQ(devices_[0]->runs + devices_[1]->runs, 1);
}

TEST_F(DeviceGroupTest, WhatNoDeviceCanDoFailsAndIsHeldAgainstNone) {
  const auto both = group();
  for (const int device : {0, 1}) fail_on(device, Code::kUnavailable, "CUDA failure 999");
  for (int i = 0; i < 10; ++i) {
    const auto failed = run(*both);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kUnavailable);
    EXPECT_EQ(failed.error().message, "CUDA failure 999");
  }
  EXPECT_EQ(devices_[0]->runs + devices_[1]->runs, 20);
  EXPECT_TRUE(roster_->left_alone().empty());
}

TEST_F(DeviceGroupTest, WhatMayHarmOrFillAnotherDeviceIsNotRunThere) {
  const struct {
    Code code;
    const char* text;
  } errors[] = {{Code::kWorkerLost, "worker 7 was killed by signal 11"},
                {Code::kUnavailable, "CUDA failure 2: out of memory"},
                {Code::kInvalid, "Invalid dimension"},
                {Code::kCancelled, "ended"}};
  const auto both = group();
  for (const auto& [code, text] : errors) {
    fail_on(1, code, text);
    const int before = devices_[0]->runs;
    int failed = 0;
    for (int i = 0; i < 8; ++i) {
      if (const auto result = run(*both); !result) {
        ++failed;
        EXPECT_EQ(result.error().code, code);
      }
    }
    EXPECT_EQ(failed, 4) << text;
    EXPECT_EQ(devices_[0]->runs - before, 4) << text;
  }
}

TEST_F(DeviceGroupTest, ADeviceThatFailsWhatAnotherCanDoIsLeftAloneUntilAProbeSucceeds) {
  std::vector<std::string> told;
  const auto both = group(true, [&](std::size_t device, const std::string& why) {
    told.push_back(std::to_string(device) + ": " + why);
  });
  const auto lane = std::make_shared<Lane>("run-m", 2, steady_clock());
  roster_->follow(lane);
  fail_on(1, Code::kUnavailable, "no device");
  while (devices_[1]->runs < 2) ASSERT_TRUE(run(*both));
  EXPECT_EQ(lane->allowed(), 2U) << "it has failed but twice";
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(run(*both));
  EXPECT_EQ(devices_[1]->runs, 3);
  EXPECT_EQ(lane->allowed(), 1U);
  EXPECT_EQ(roster_->living(), 2U);
  EXPECT_EQ(roster_->serving(), 1U);
  EXPECT_TRUE(roster_->any_left_alone());
  ASSERT_EQ(roster_->left_alone().size(), 1U);
  EXPECT_EQ(roster_->left_alone()[0].error, "no device");

  probe(*both);
  EXPECT_EQ(devices_[1]->runs, 4);
  EXPECT_EQ(lane->allowed(), 1U) << "the probe failed";
  heal(1);
  probe(*both);
  EXPECT_FALSE(roster_->any_left_alone());
  EXPECT_EQ(lane->allowed(), 2U);
  EXPECT_EQ(told, (std::vector<std::string>{"1: no device", "1: "}));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(run(*both));
  EXPECT_EQ(devices_[1]->runs, 7);
  probe(*both);
  EXPECT_EQ(devices_[1]->runs, 7) << "none fails";
}

TEST_F(DeviceGroupTest, ASuccessBetweenItsFailuresKeepsADevice) {
  const auto both = group();
  for (int i = 0; i < 10; ++i) {
    fail_on(1, Code::kUnavailable, "no device");
    while (devices_[1]->runs < 3 * i + 2) ASSERT_TRUE(run(*both));
    ASSERT_EQ(roster_->serving(), 2U);
    heal(1);
    while (devices_[1]->runs < 3 * i + 3) ASSERT_TRUE(run(*both));
  }
}

TEST_F(DeviceGroupTest, AFreshWorkerIsNotLeftAloneForTheOneBefore) {
  const auto both = group();
  fail_on(1, Code::kUnavailable, "no device");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(run(*both));
  ASSERT_EQ(roster_->serving(), 1U);
  roster_->set_living(1, false);
  EXPECT_TRUE(roster_->left_alone().empty()) << "it is lost";
  roster_->set_living(1, true);
  EXPECT_EQ(roster_->serving(), 2U);
}

TEST_F(DeviceGroupTest, WhatFailedOnTheWorkerBeforeIsNotHeldAgainstAFreshOne) {
  constexpr int kRuns = 3;
  roster_ = std::make_shared<DeviceGroup::Roster>(2, kRuns);
  std::promise<void> replaced;
  const auto gate = replaced.get_future().share();
  devices_[0]->before = [&] {
    gate.wait();
    return Result<void>();
  };
  devices_[1]->before = [&]() -> Result<void> {
    gate.wait();
    return fail(Code::kUnavailable, "no device");
  };
  const auto both = group();
  std::vector<std::jthread> callers;
  for (int i = 0; i < 2 * kRuns; ++i) callers.emplace_back([&] { EXPECT_TRUE(run(*both)); });
  while (devices_[1]->runs < kRuns) std::this_thread::yield();
  roster_->set_living(1, false);
  roster_->set_living(1, true);
  replaced.set_value();
  callers.clear();
  EXPECT_EQ(roster_->serving(), 2U);
}

TEST_F(DeviceGroupTest, WhatWaitsIsRunOnADeviceThatIsLeftAloneNoMore) {
  const auto both = group();
  fail_on(1, Code::kUnavailable, "no device");
  while (roster_->serving() == 2) ASSERT_TRUE(run(*both));
  heal(1);
  devices_[0]->hangs = true;
  const int before = devices_[0]->runs;
  std::jthread holder([&] { EXPECT_TRUE(run(*both)); });
  while (devices_[0]->runs == before) std::this_thread::yield();
  std::atomic<bool> begins{false};
  std::future<bool> waits = std::async(std::launch::async, [&] {
    begins = true;
    return run(*both).has_value();
  });
  while (!begins) std::this_thread::yield();
  probe(*both);
  EXPECT_EQ(waits.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  devices_[0]->hangs = false;
  EXPECT_TRUE(waits.get());
}

TEST_F(DeviceGroupTest, ADeviceThatIsLeftAloneIsTriedBeforeARunFails) {
  const auto both = group();
  fail_on(1, Code::kUnavailable, "no device");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(run(*both));
  heal(1);
  fail_on(0, Code::kUnavailable, "no device either");
  EXPECT_TRUE(run(*both));
  EXPECT_EQ(roster_->serving(), 2U) << "it answers again";
}

TEST_F(DeviceGroupTest, TheLaneRunsAsManyAsTheLivingDevicesMay) {
  const auto both = group();
  const auto lane = std::make_shared<Lane>("run-m", 2, steady_clock());
  roster_->set_living(0, false);
  roster_->follow(lane);
  EXPECT_EQ(lane->allowed(), 1U);
  roster_->set_living(0, true);
  EXPECT_EQ(lane->allowed(), 2U);
  roster_->set_living(0, false);
  roster_->set_living(1, false);
  EXPECT_EQ(lane->allowed(), 1U) << "what waits must go on to fail";
}

TEST_F(DeviceGroupTest, NeverUsesADeviceThatCouldNotLoadTheLevel) {
  const auto one = group(false);
  EXPECT_EQ(roster_->living(), 1U);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(*one));
  EXPECT_EQ(devices_[0]->runs, 3);
}

TEST_F(DeviceGroupTest, ADeviceThatJoinsLaterBringsItsShare) {
  const auto late = group(false);
  const auto lane = std::make_shared<Lane>("run-m", 2, steady_clock());
  roster_->follow(lane);
  EXPECT_EQ(lane->allowed(), 1U);
  EXPECT_EQ(roster_->lacking(), 1U);
  EXPECT_EQ(late->join(1, std::make_unique<FakeBackend>(devices_[1])), 2U);
  EXPECT_EQ(lane->allowed(), 2U);
  EXPECT_FALSE(roster_->lacking());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(run(*late));
  EXPECT_EQ(devices_[1]->runs, 2);
}

TEST_F(DeviceGroupTest, ADeviceThatWasLostWhileItLoadedBringsNothingBeforeItIsBack) {
  const auto late = group(false);
  EXPECT_EQ(roster_->set_living(1, false), 1U);
  EXPECT_EQ(late->join(1, std::make_unique<FakeBackend>(devices_[1])), 1U);
  EXPECT_EQ(roster_->set_living(1, true), 2U);
}

// A level on devices 0 and 1, as a loader brings it up.
class LaterDeviceTest : public DeviceGroupTest {
 protected:
  static config::ModelConfig two_devices() {
    config::ModelConfig config;
    config.levels.emplace_back();
    config.levels[0].file = "model.onnx";
    config.levels[0].providers = {{"CUDAExecutionProvider", {}}};
    config.levels[0].device_ids = {0, 1};
    return config;
  }

  Result<runtime::Loaded> load(const runtime::LoadSpec& spec) {
    const int device = spec.device_ids.at(0);
    if (device == missing_) return fail(Code::kUnavailable, "no such device");
    runtime::Loaded loaded;
    loaded.backend = std::make_unique<FakeBackend>(devices_.at(static_cast<std::size_t>(device)));
    loaded.provider_used = "CUDAExecutionProvider";
    return loaded;
  }

  std::size_t living() const {
    const auto& backend = *slot().runtime()->backend;
    return dynamic_cast<const DeviceGroup&>(backend).roster()->living();
  }
  LevelSlot& slot() const { return *model_->levels[0]; }

  int missing_ = 1;
  const LoadFn fake_ = [this](const runtime::LoadSpec& spec) { return load(spec); };
  Lanes lanes_{1, steady_clock()};
  worker::SharedPool memory_{{.shared = false}};
  const Loading with_{fake_, nullptr, lanes_, {}, memory_, steady_clock()};
  std::shared_ptr<Model> model_ =
      std::make_shared<Model>("m", "1", "/models/m", two_devices(), steady_clock());
};

TEST_F(LaterDeviceTest, JoinsTheLevelOnceItIsThere) {
  devices_[1]->factor = devices_[0]->factor;
  load_level(model_, slot(), with_);
  ASSERT_NE(slot().runtime(), nullptr);
  ASSERT_TRUE(lacks_devices(slot()));
  EXPECT_TRUE(retry_level(model_, slot(), with_)) << "it may still come";
  EXPECT_EQ(living(), 1U);
  missing_ = -1;
  EXPECT_FALSE(retry_level(model_, slot(), with_)) << "all are there";
  EXPECT_EQ(living(), 2U);
  EXPECT_FALSE(lacks_devices(slot()));
  const int before = devices_[1]->runs;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(slot().runtime()->run_sample());
  EXPECT_EQ(devices_[1]->runs, before + 1);
}

TEST_F(LaterDeviceTest, StaysOutWhileItDoesNotRunOrIsAnotherModel) {
  load_level(model_, slot(), with_);
  missing_ = -1;
  devices_[1]->before = [] { return Result<void>(fail(Code::kUnavailable, "device lost")); };
  EXPECT_TRUE(retry_level(model_, slot(), with_));
  EXPECT_EQ(living(), 1U);
  devices_[1]->before = [] { return Result<void>(); };
  devices_[1]->input = "z";
  EXPECT_TRUE(retry_level(model_, slot(), with_));
  EXPECT_EQ(living(), 1U);
}

TEST_F(DeviceGroupTest, WaitsForABusyDeviceRatherThanOverloadIt) {
  std::promise<void> go_on;
  const auto gate = go_on.get_future().share();
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  devices_[1]->before = [&]() -> Result<void> {
    const int now = ++inside;
    if (now > most) most = now;
    gate.wait();
    --inside;
    return {};
  };
  const auto both = group();
  roster_->set_living(0, false);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 3; ++i) callers.emplace_back([&] { EXPECT_TRUE(run(*both)); });
  while (inside == 0) std::this_thread::yield();
  go_on.set_value();
  callers.clear();
  EXPECT_EQ(devices_[1]->runs, 3);
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace gradus::serving
