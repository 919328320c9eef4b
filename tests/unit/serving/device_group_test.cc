#include "serving/device_group.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "serving/lane.h"
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

  std::unique_ptr<DeviceGroup> group(bool second_loaded = true) {
    std::vector<std::unique_ptr<runtime::Backend>> members;
    members.push_back(std::make_unique<FakeBackend>(devices_[0]));
    members.push_back(second_loaded ? std::make_unique<FakeBackend>(devices_[1]) : nullptr);
    return std::make_unique<DeviceGroup>(roster_, std::move(members));
  }

  static Result<std::vector<Tensor>> run(DeviceGroup& group) {
    static const float kOne = 1;
    const TensorView input{DType::kFp32, {1}, std::as_bytes(std::span(&kOne, 1))};
    const std::size_t output = 0;
    return group.run({&input, 1}, {&output, 1});
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
