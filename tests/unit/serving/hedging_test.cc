// What becomes of a request whose level is late: another device beside it, the end of its run.
#include "engine_fixture.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Hedging : public EngineTest {
 protected:
  ~Hedging() override {
    for (auto& [number, level] : levels_) level->hangs = false;
  }
  static Request hurried(Duration timeout) {
    Request made = request();
    made.timeout = timeout;
    return made;
  }
  static constexpr int kTries = 10;

  /// Goes elsewhere when what is left of the time is about what the other level's run takes; a busy
  /// machine may be late by more than that: tried again until there is an answer.
  Response infer_hurried() {
    std::optional<Response> answer;
    for (int tries = 0; tries < kTries && !answer; ++tries) {
      if (auto response = infer(hurried(300ms))) answer = std::move(*response);
    }
    return std::move(answer).value();
  }
  /// An answer in time by a second attempt, while a run of level 0 hangs. Where a busy machine is
  /// late, level 0 is known to be slow from then on: each try has an engine of its own.
  Response infer_hedged() {
    std::optional<Response> answer;
    for (int tries = 0; tries < kTries && !answer; ++tries) {
      levels_[0]->hangs = false;
      start_and_load();
      levels_[0]->stopped = 0;
      levels_[0]->hangs = true;
      auto response = infer(hurried(300ms));
      const bool hedged =
          engine_->metrics_text({}).find(
              R"(gradus_serving_hedges_won_total{model="m",version="1",level="1"} 1)") !=
          std::string::npos;
      if (hedged && response->origin.latency < 300ms) answer = std::move(*response);
    }
    return std::move(answer).value();
  }
};

TEST_F(Hedging, AnotherDeviceAnswersInTime) {
  const Response response = infer_hedged();
  EXPECT_EQ(response.origin.level, 1);
  EXPECT_EQ(value(response), 9);
}

TEST_F(Hedging, WithoutABudgetTheDeadlinePasses) {
  config_.policy.hedge_share = 0;
  start_and_load();
  levels_[0]->hangs = true;
  const auto response = infer(hurried(100ms));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDeadline);
}

TEST_F(Hedging, WhatOnlyWaitsGoesElsewhereAtNoCost) {
  config_.policy.hedge_share = 0;
  start_and_load();
  levels_[0]->hangs = true;
  const int before = levels_[0]->runs;
  auto holder = send(request());  // the only run of level 0
  wait_for([&] { return levels_[0]->runs == before + 1; });
  EXPECT_EQ(infer_hurried().origin.level, 1);
  levels_[0]->hangs = false;
  EXPECT_EQ(holder.get()->origin.level, 0);
  EXPECT_EQ(levels_[0]->runs, before + 1) << "what went elsewhere was not run as well";
}

TEST_F(Hedging, WhatGaveUpItsPlaceIsTakenElsewhereHoweverManyWaitThere) {
  config_.policy.hedge_share = 0;
  config_.queue_policies.usual.max_queue_size = 1;
  start_and_load();
  const auto on_cpu = [] {
    Request made = request();
    made.min_level = made.max_level = 1;
    return made;
  };
  for (const int level : {0, 1}) levels_[level]->hangs = true;
  const int gpu_before = levels_[0]->runs;
  const int cpu_before = levels_[1]->runs;
  std::vector<std::future<Result<Response>>> holders;
  holders.push_back(send(request()));
  for (int i = 0; i < 2; ++i) holders.push_back(send(on_cpu()));
  wait_for(
      [&] { return levels_[0]->runs == gpu_before + 1 && levels_[1]->runs == cpu_before + 2; });
  holders.push_back(send(on_cpu()));
  EXPECT_FALSE(infer(on_cpu())) << "one waits there, which is all that may";
  Request moving = hurried(2s);
  moving.max_level = 1;
  auto moved = send(moving);
  wait_for(
      [&] { return engine_->ladder_json("m", "")->find("\"waiting\":2,") != std::string::npos; });
  levels_[1]->hangs = false;
  const auto response = moved.get();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->origin.level, 1);
  levels_[0]->hangs = false;
  for (auto& holder : holders) EXPECT_TRUE(holder.get());
}

TEST_F(Hedging, NeverTwiceOnOneDevice) {
  config_.levels.erase(config_.levels.begin());  // two CPU levels
  start_and_load();
  levels_[1]->hangs = true;
  const auto response = infer(hurried(100ms));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDeadline);
}

TEST_F(Hedging, TheLoserIsEnded) {
  infer_hedged();
  wait_for([&] { return levels_[0]->stopped > 0; });
}

TEST_F(Hedging, ADeadlineEndsTheRun) {
  config_.levels = {level_config(1, "cpu", "CPUExecutionProvider")};
  start_and_load();
  levels_[1]->hangs = true;
  wait_for([&] {  // on a busy machine one may not even begin
    EXPECT_FALSE(infer(hurried(50ms)));
    return levels_[1]->stopped > 0;
  });
  levels_[1]->hangs = false;
  EXPECT_TRUE(infer());
}

TEST_F(Hedging, ARunThatSomebodyStillWaitsForGoesOn) {
  config_.levels = {level_config(1, "cpu", "CPUExecutionProvider")};
  config_.levels[0].max_batch_size = 2;
  config_.levels[0].join = config::Join::kAlways;
  config_.levels[0].instances = 1;
  start_and_load();
  levels_[1]->hangs = true;
  const int before = levels_[1]->runs;
  const Ticket holder = engine_->infer(request(), [](const Result<Response>&) {});
  wait_for([&] { return levels_[1]->runs == before + 1; });
  auto patient = send(request());
  auto impatient = send(hurried(1s));
  holder.lock()->cancel();
  wait_for([&] { return levels_[1]->runs == before + 2; });  // both together
  const auto late = impatient.get();
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("it had run for"));
  levels_[1]->hangs = false;
  EXPECT_TRUE(patient.get());
  EXPECT_EQ(levels_[1]->stopped, 1) << "the holder's";
  EXPECT_EQ(levels_[1]->batches().back(), 2);
}

TEST_F(Hedging, AClientThatLeavesEndsItsRun) {
  start_and_load();
  levels_[0]->hangs = true;
  const int before = levels_[0]->runs;
  std::promise<Result<Response>> answered;
  const Ticket ticket = engine_->infer(
      request(), [&](Result<Response> result) { answered.set_value(std::move(result)); });
  wait_for([&] { return levels_[0]->runs == before + 1; });
  ticket.lock()->cancel();
  EXPECT_EQ(answered.get_future().get().error().code, Code::kCancelled);
  wait_for([&] { return levels_[0]->stopped == 1; });
  wait_for([&] { return ticket.expired(); });
}

TEST_F(Hedging, AClientThatLeavesTheQueueIsNeverRun) {
  config_.policy.hedge_share = 0;
  start_and_load();
  levels_[0]->hangs = true;
  const int before = levels_[0]->runs;
  auto holder = send(request());
  wait_for([&] { return levels_[0]->runs == before + 1; });
  std::promise<Result<Response>> answered;
  const Ticket ticket = engine_->infer(
      request(), [&](Result<Response> result) { answered.set_value(std::move(result)); });
  ticket.lock()->cancel();
  EXPECT_EQ(answered.get_future().get().error().code, Code::kCancelled);
  levels_[0]->hangs = false;
  ASSERT_TRUE(holder.get());
  ASSERT_TRUE(infer());
  EXPECT_EQ(levels_[0]->runs, before + 2);
}

}  // namespace
}  // namespace gradus::serving
