// What a full queue tells the ladder, and what the bound of one priority does not. One model by
// hand, in simulated time.
#include "serving/in_flight.h"
#include "serving/lanes.h"
#include "serving/level_run.h"
#include "support/manual_clock.h"
#include "unit/serving/engine_fixture.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

constexpr int kRefused = 20;  // more than the ladder needs to see an overload

// Level 0 carries no more load, level 1 does. Level 0 runs one request until the test ends, and one
// more of priority 3 waits for it, which is all that may by one of two bounds.
class PriorityBound : public EngineTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    clock_.advance(1h);
    config_.levels.pop_back();
    for (config::LevelConfig& level : config_.levels) level.instances = 1;
    config_.priority_levels = 3;
  }

  void hold_level_0(std::size_t most, std::uint32_t most_of_priority) {
    config_.queue_policies.by_priority[3].max_queue_size = most_of_priority;
    model_ = std::make_shared<Model>("m", "1", "", config_, clock_);
    for (const auto& slot : model_->levels) add(*slot, most);
    model_->ladder.tell(ladder::Prediction{0, ladder::kCannotCarry});
    model_->ladder.tell(ladder::Prediction{1, 1ms});
    levels_[0]->before = gate_.wait();
    held_.push_back(send());
    wait_for([&] { return levels_[0]->runs == 1; });
    held_.push_back(send());
  }

  void TearDown() override {
    gate_.open();
    for (auto& answer : held_) EXPECT_TRUE(answer.get());
    wait_for([&] { return model_.use_count() == 1; });  // no lane's thread may end it
  }

  std::future<Result<Response>> send(int max_level = 1) {
    Request made = request();
    made.arrival = clock_.now();
    made.tier = config::Tier::kBatch;
    made.priority = 3;
    made.max_level = max_level;
    auto promise = std::make_shared<std::promise<Result<Response>>>();
    InFlight::start(
        model_, std::move(made),
        [promise](Result<Response> result) { promise->set_value(std::move(result)); }, clock_,
        timer_);
    return promise->get_future();
  }

  // Of so many that level 0 has no place for; GetParam() is the worst level that they accept.
  void send_more() {
    for (int i = 0; i < kRefused; ++i) {
      EXPECT_EQ(send(GetParam()).get().has_value(), GetParam() == 1);
    }
    model_->ladder.tick();
  }

 private:
  void add(LevelSlot& slot, std::size_t most) {
    auto level = std::make_unique<LevelRuntime>();
    level->backend = std::make_unique<support::FakeBackend>(levels_[slot.config.level]);
    auto lane = lanes_.lane_for("m", slot.config, false);
    LevelQueue& queue = lane->open({.level = slot.config.level,
                                    .limits = {.entries = most},
                                    .run = [this, &slot](const Batch& batch, const Ended& ended) {
                                      run_on_level(*model_, slot, batch, ended, clock_);
                                    }});
    level->queue = OpenQueue(std::move(lane), queue);
    slot.publish(std::move(level));
    model_->ladder.level_ready(slot.config.level);
  }

 protected:
  support::ManualClock clock_;
  Lanes lanes_{2, clock_};
  DeadlineTimer timer_{clock_};
  std::shared_ptr<Model> model_;
  Gate gate_;
  std::vector<std::future<Result<Response>>> held_;
};

TEST_P(PriorityBound, IsNoOverloadOfTheLevel) {
  hold_level_0(100, 1);
  send_more();
  EXPECT_EQ(model_->ladder.status().current, 0);
  EXPECT_FALSE(model_->ladder.status().saturated);
}

TEST_P(PriorityBound, AsAFullQueueIs) {
  hold_level_0(1, 0);
  send_more();
  EXPECT_EQ(model_->ladder.status().current, 1);
}

INSTANTIATE_TEST_SUITE_P(WorstLevelAccepted, PriorityBound, testing::Values(1, 0));

}  // namespace
}  // namespace gradus::serving
