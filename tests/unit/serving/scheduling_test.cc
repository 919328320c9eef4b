// Who waits, who runs together, who is refused: the engine's queues on fake levels.
#include "support/manual_clock.h"
#include "unit/serving/one_level_fixture.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;
using config::Tier;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SchedulingTest : public OneLevelTest {
 protected:
  static Request of(Tier tier, Duration timeout = 10s) {
    Request made = request();
    made.tier = tier;
    made.timeout = timeout;
    return made;
  }
  /// By the engine's clock.
  Result<Response> infer_within(Duration timeout) {
    Request asked = request();
    asked.arrival = clock_->now();
    asked.timeout = timeout;
    return infer(asked);
  }
};

TEST_F(SchedulingTest, WhatADeviceThatIsNotThereWouldRunWaitsInTheQueue) {
  config::LevelConfig level = level_config(1, "gpu", "CUDAExecutionProvider");
  level.device_ids = {0, 1};
  config_.levels = {level};
  for (const bool missing : {true, false}) {
    missing_devices_ = missing ? std::set{1} : std::set<int>{};
    levels_[1]->before = [] { return Result<void>(); };
    start_and_load();
    Gate gate;
    auto first = hold(gate);
    auto second = send(request());
    const std::string seen =
        missing ? "\"waiting\":1,\"running\":1," : "\"waiting\":0,\"running\":2,";
    wait_for([&] { return engine_->ladder_json("m", "")->find(seen) != std::string::npos; });
    gate.open();
    EXPECT_TRUE(first.get());
    EXPECT_TRUE(second.get());
  }
}

TEST_F(SchedulingTest, TakesOneThatRunsAndAsManyAsMayWaitAndRefusesTheNextEveryTime) {
  one_level(1, 4);
  for (int round = 0; round < 20; ++round) {
    Gate gate;
    levels_[1]->before = gate.wait();
    std::vector<std::future<Result<Response>>> taken;
    for (int i = 0; i < 5; ++i) taken.push_back(send(request()));  // at once, the thread asleep
    const auto refused = infer();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kOverloaded);
    EXPECT_THAT(refused.error().message, HasSubstr("level 1 'cpu': its queue is full"));
    gate.open();
    for (auto& answer : taken) {
      const auto response = answer.get();
      ASSERT_TRUE(response) << response.error().message;
    }
  }
}

TEST_F(SchedulingTest, ADeadlineThatPassesInTheQueueFreesItsPlaceAtOnce) {
  one_level(1, 1);
  Gate gate;
  auto running = hold(gate);
  Request hurried = request();
  hurried.timeout = 10ms;
  EXPECT_EQ(infer(hurried).error().code, Code::kDeadline);
  auto next = send(request());  // into the only place
  EXPECT_FALSE(infer()) << "it is taken again";
  gate.open();
  EXPECT_TRUE(running.get());
  EXPECT_TRUE(next.get());
  EXPECT_EQ(batches().size(), 2U) << "what was late has never run";
}

TEST_F(SchedulingTest, WhatWaitsRunsTogetherAndEachGetsItsOwnAnswer) {
  one_level(8);
  Gate gate;
  auto running = hold(gate);
  const float values[] = {1, 2, 3, 4, 5};
  std::vector<std::future<Result<Response>>> answers;
  for (const float& one : values) answers.push_back(send(many({&one, 1})));
  gate.open();
  EXPECT_TRUE(running.get());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto response = answers[i].get();
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(value(*response), 3 * values[i]);
    EXPECT_EQ(response->outputs[0].tensor.shape, Shape{1});
  }
  EXPECT_THAT(batches(), ElementsAre(1, 5));
}

TEST_F(SchedulingTest, StatisticsCountRunsByTheirSizeAndRequestsByWhatBecameOfThem) {
  one_level(8);
  const auto at_first = engine_->statistics("", "");
  ASSERT_TRUE(at_first);
  ASSERT_EQ(at_first->size(), 1U) << "what cannot be served is left out";
  EXPECT_EQ(at_first->front().last_inference_ms, 0U);
  EXPECT_EQ(at_first->front().execution_count, 0U) << "its runs while it loaded are nobody's";

  const auto ms_now = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(wall_now().time_since_epoch())
        .count();
  };
  const auto begun = ms_now();
  Gate gate;
  auto running = hold(gate);
  std::vector<std::future<Result<Response>>> joined;
  for (int i = 0; i < 5; ++i) joined.push_back(send(request()));
  gate.open();
  EXPECT_TRUE(running.get());
  for (auto& answer : joined) EXPECT_TRUE(answer.get());
  const std::vector<float> twenty(20, 1);
  EXPECT_TRUE(infer(many(twenty))) << "in parts of 8, 8 and 4";
  levels_[1]->before = [] { return fail(Code::kInternal, "broken"); };
  EXPECT_FALSE(infer());

  const auto found = engine_->statistics("m", "");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1U);
  const ModelStatistics& all = found->front();
  EXPECT_EQ(all.name + "/" + all.version, "m/1");
  EXPECT_GE(static_cast<std::int64_t>(all.last_inference_ms), begun - 1);
  EXPECT_LE(static_cast<std::int64_t>(all.last_inference_ms), ms_now() + 1);
  EXPECT_EQ(all.inference_count, 26U);
  EXPECT_EQ(all.execution_count, 5U);
  for (const DurationSum& sum :
       {all.success, all.queue, all.compute_input, all.compute_infer, all.compute_output}) {
    EXPECT_EQ(sum.count, 7U);
  }
  EXPECT_EQ(all.fail.count, 1U);
  EXPECT_GT(all.fail.ns, 0U);
  EXPECT_GE(all.success.ns,
            all.queue.ns + all.compute_input.ns + all.compute_infer.ns + all.compute_output.ns);
  ASSERT_EQ(all.batches.size(), 4U);
  const std::uint64_t sizes[][2] = {{1, 1}, {4, 1}, {5, 1}, {8, 2}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all.batches[i].batch_size, sizes[i][0]);
    EXPECT_EQ(all.batches[i].compute_infer.count, sizes[i][1]);
    EXPECT_GT(all.batches[i].compute_infer.ns, 0U);
    const bool is_joined = sizes[i][0] == 5;
    EXPECT_EQ(all.batches[i].compute_input.ns > 0, is_joined);
    EXPECT_EQ(all.batches[i].compute_output.ns > 0, is_joined);
  }
  EXPECT_EQ(all.compute_input.ns, 5 * all.batches[2].compute_input.ns) << "each waited for it";
  ASSERT_EQ(all.levels.size(), 1U);
  EXPECT_EQ(all.levels[0].level, 1);
  EXPECT_EQ(all.levels[0].name, "cpu");
  EXPECT_EQ(all.levels[0].inference_count, 26U);
  EXPECT_EQ(all.levels[0].success.count, 7U);

  EXPECT_TRUE(engine_->statistics("m", "1"));
  EXPECT_EQ(engine_->statistics("m", "2").error().code, Code::kNotFound);
  EXPECT_EQ(engine_->statistics("nosuch", "").error().code, Code::kNotFound);
  EXPECT_EQ(engine_->statistics("broken", "").error().code, Code::kUnavailable);
}

TEST_F(SchedulingTest, WhatIsRefusedAtOnceHasFailedSinceItsArrival) {
  one_level(1);
  Request asked = request();
  asked.min_level = 9;
  asked.arrival -= 1h;
  EXPECT_EQ(infer(asked).error().code, Code::kInvalid);
  const auto found = engine_->statistics("m", "");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->front().fail.count, 1U);
  EXPECT_GE(Duration(found->front().fail.ns), 1h);
}

TEST_F(SchedulingTest, ABatchIsNeverLargerThanItMayBe) {
  one_level(4);
  Gate gate;
  auto running = hold(gate);
  std::vector<std::future<Result<Response>>> answers;
  for (int i = 0; i < 9; ++i) answers.push_back(send(request()));
  gate.open();
  EXPECT_TRUE(running.get());
  for (auto& answer : answers) EXPECT_TRUE(answer.get());
  EXPECT_THAT(batches(), ElementsAre(1, 4, 4, 1));
}

TEST_F(SchedulingTest, NoInstanceTakesMoreThanItsShare) {
  config::LevelConfig level = level_config(1, "cpu", "CPUExecutionProvider");
  level.instances = 2;
  level.isolation = config::Isolation::kProcess;
  level.max_batch_size = 8;
  level.join = config::Join::kAlways;
  config_.levels = {level};
  start_and_load();
  loaded_ = levels_[1]->batches().size();
  Gate gate;
  levels_[1]->before = gate.wait();
  const int before = levels_[1]->runs;
  std::vector<std::future<Result<Response>>> answers;
  for (int i = 0; i < 2; ++i) answers.push_back(send(request()));
  wait_for([&] { return levels_[1]->runs == before + 2; });
  for (int i = 0; i < 7; ++i) answers.push_back(send(request()));
  gate.open();
  for (auto& answer : answers) EXPECT_TRUE(answer.get());
  for (const std::int64_t samples : batches()) EXPECT_LE(samples, 5) << "of nine";
}

TEST_F(SchedulingTest, AMachineThatIsBusyAsItLoadsDoesNotDecideWhatIsJoined) {
  support::ManualClock clock;
  clock_ = &clock;
  int singles = 0;
  levels_[1]->before_values = [&](std::span<const float> values) {
    const auto samples = static_cast<int>(values.size());
    const bool busy = samples == 1 && ++singles < 9;
    clock.advance(busy ? 20ms : samples == 1 ? 1ms : samples * 3ms);
    return Result<void>();
  };
  one_level(8, 0, config::Join::kIfQuicker);
  EXPECT_GT(singles, 9);
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("\"batch_size\":1,"));
  engine_.reset();
}

TEST_F(SchedulingTest, TheLogSaysOnceWhereJoiningSavesNothing) {
  support::ManualClock clock;
  clock_ = &clock;
  const auto lines = [&](config::Join join, Duration each_more) {
    levels_[1]->before_values = [&clock, each_more](std::span<const float> values) {
      clock.advance(2ms + each_more * (values.size() - 1));
      return Result<void>();
    };
    testing::internal::CaptureStderr();
    one_level(8, 0, join);
    engine_.reset();
    const std::string log = testing::internal::GetCapturedStderr();
    const std::string said =
        "model 'm' level 1 'cpu': requests are not joined: in trial runs batches save less than a "
        "tenth of the time; to join all the same set join: always";
    int count = 0;
    for (std::size_t at = 0; (at = log.find(said, at)) != log.npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(lines(config::Join::kIfQuicker, 2ms), 1);
  EXPECT_EQ(lines(config::Join::kIfQuicker, 1ms), 0);
  EXPECT_EQ(lines(config::Join::kAlways, 2ms), 0);
}

TEST_F(SchedulingTest, RequestsThatCarryBatchesAreJoinedAsWell) {
  one_level(8);
  Gate gate;
  auto running = hold(gate);
  const float values[] = {1, 2, 3, 4, 5};
  auto three = send(many(std::span(values).first(3)));
  auto two = send(many(std::span(values).last(2)));
  gate.open();
  EXPECT_TRUE(running.get());
  const auto first = three.get();
  const auto second = two.get();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->outputs[0].tensor.shape, Shape{3});
  EXPECT_EQ(value(*second), 12);
  EXPECT_THAT(batches(), ElementsAre(1, 5));
}

TEST_F(SchedulingTest, ARequestLargerThanABatchIsSplitAndPutTogetherAgain) {
  one_level(4);
  std::vector<float> values(10);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto response = infer(many(values));
  ASSERT_TRUE(response) << response.error().message;
  const Tensor& output = response->outputs[0].tensor;
  EXPECT_EQ(output.shape, Shape{10});
  std::vector<float> came(10);
  std::memcpy(came.data(), output.data.data(), output.data.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(came[i], 3 * values[i]);
  EXPECT_THAT(batches(), ElementsAre(4, 4, 2));
}

TEST_F(SchedulingTest, OneBadRequestInABatchIsRefusedAndTheOthersAreAnswered) {
  one_level(8);
  Gate gate;
  auto running = hold(gate);
  const float bad = -1;
  std::vector<std::future<Result<Response>>> good;
  good.push_back(send(request()));
  auto refused = send(many({&bad, 1}));
  good.push_back(send(request()));
  levels_[1]->before_values = [](std::span<const float> values) -> Result<void> {
    for (const float one : values) {
      if (one < 0) return fail(Code::kInvalid, "index -1 is out of bounds");
    }
    return {};
  };
  gate.open();
  EXPECT_TRUE(running.get());
  for (auto& answer : good) EXPECT_TRUE(answer.get());
  const auto response = refused.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kInvalid);
  EXPECT_THAT(response.error().message, HasSubstr("index -1 is out of bounds"));
}

TEST_F(SchedulingTest, BetterTiersRunFirstThenEarlierDeadlines) {
  one_level(1);
  Gate gate;
  auto running = hold(gate);
  std::mutex mutex;
  std::vector<std::string> order;
  const auto ask = [&](const char* name, Request asked) {
    engine_->infer(std::move(asked), [&, name](const Result<Response>& result) {
      const std::lock_guard lock(mutex);
      order.push_back(result ? name : "failed");
    });
  };
  ask("batch", of(Tier::kBatch));
  ask("standard late", of(Tier::kStandard, 9s));
  ask("standard soon", of(Tier::kStandard, 5s));
  ask("realtime", of(Tier::kRealtime));
  gate.open();
  wait_for([&] {
    const std::lock_guard lock(mutex);
    return order.size() == 4;
  });
  EXPECT_TRUE(running.get());
  EXPECT_THAT(order, ElementsAre("realtime", "standard soon", "standard late", "batch"));
}

TEST_F(SchedulingTest, ModelsThatShareALaneAreServedByTierThenArrivalThoughOneFloodsIt) {
  names_ = {"m", "n"};
  cpus_ = 1;
  config_.levels = {level_config(1, "cpu", "CPUExecutionProvider")};
  config_.levels[0].isolation = config::Isolation::kProcess;  // nothing runs on the caller's thread
  config_.levels[0].max_batch_size = 1;
  start_and_load();
  Gate gate;
  auto running = hold(gate);
  std::mutex mutex;
  std::vector<std::string> order;
  const auto ask = [&](const char* model, Tier tier) {
    Request asked = of(tier);
    asked.model = model;
    engine_->infer(std::move(asked), [&, model, tier](const Result<Response>& result) {
      const std::lock_guard lock(mutex);
      const char* const note = tier == Tier::kRealtime ? " realtime" : "";
      order.push_back(result ? std::string(model) + note : result.error().message);
    });
  };
  std::vector<std::string> expected(20, "m");
  for (int i = 0; i < 10; ++i) ask("m", Tier::kStandard);
  ask("n", Tier::kStandard);
  for (int i = 0; i < 10; ++i) ask("m", Tier::kStandard);
  ask("n", Tier::kRealtime);
  expected.insert(expected.begin() + 10, "n");
  expected.insert(expected.begin(), "n realtime");
  gate.open();
  wait_for([&] {
    const std::lock_guard lock(mutex);
    return order.size() == expected.size();
  });
  EXPECT_TRUE(running.get());
  EXPECT_EQ(order, expected);
}

TEST_F(SchedulingTest, AFullQueueGivesTheBatchTiersPlacesToBetterOnes) {
  one_level(1, 4);
  Gate gate;
  auto running = hold(gate);
  std::vector<std::future<Result<Response>>> background;
  for (int i = 0; i < 3; ++i) background.push_back(send(of(Tier::kBatch)));
  EXPECT_FALSE(infer(of(Tier::kBatch))) << "three quarters are all that the tier may have";
  auto first = send(request());
  auto second = send(request());  // takes the place of the newest of tier batch
  const auto refused = background.back().get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  EXPECT_THAT(refused.error().message, HasSubstr("its place went to a better tier"));
  gate.open();
  EXPECT_TRUE(running.get());
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(background[0].get());
  EXPECT_TRUE(background[1].get());
}

TEST_F(SchedulingTest, APriorityBeyondTheModelsLevelsIsTheDefaultOne) {
  config_.priority_levels = 6;
  config_.default_priority = 1;
  config_.queue_policies.by_priority[1] = {.max_queue_size = 1};
  one_level(1);
  Gate gate;
  auto running = hold(gate);
  Request asked = request();
  asked.priority = 7;
  auto waits = send(asked);
  EXPECT_THAT(infer(asked).error().message, HasSubstr("requests of priority 1 wait as may: 1"));
  asked.priority = 6;
  auto other = send(asked);
  gate.open();
  EXPECT_TRUE(running.get());
  EXPECT_TRUE(waits.get());
  EXPECT_TRUE(other.get());
}

TEST_F(SchedulingTest, WhatItsPriorityDelaysIsAnsweredAfterTheOthersThoughItsTimeoutHasPassed) {
  config_.priority_levels = 2;
  config_.default_priority = 1;
  config_.queue_policies.by_priority[1] = {.timeout_action = config::TimeoutAction::kDelay};
  config_.queue_policies.usual = {.timeout = 5ms};
  one_level(1);
  Gate gate;
  auto running = hold(gate);
  std::vector<int> order;
  std::mutex mutex;
  std::vector<std::future<void>> answered;
  const auto ask = [&](int who, std::uint64_t priority, Duration timeout) {
    auto promise = std::make_shared<std::promise<void>>();
    answered.push_back(promise->get_future());
    Request asked = request();
    asked.priority = priority;
    asked.timeout = timeout;
    engine_->infer(std::move(asked), [&, who, promise](const Result<Response>& result) {
      {
        const std::lock_guard lock(mutex);
        order.push_back(result ? who : -who);
      }
      promise->set_value();
    });
  };
  ask(1, 0, 1ms);
  const TimePoint due = steady_clock().now() + 1ms;
  ask(2, 2, 1h);
  answered[1].wait();
  wait_for([&] { return steady_clock().now() > due; });
  ask(3, 1, 1h);
  gate.open();
  EXPECT_TRUE(running.get());
  for (auto& one : answered) one.get();
  EXPECT_EQ(order, (std::vector{-2, 3, 1})) << "2 is rejected after its policy's 5 ms";
}

TEST_F(SchedulingTest, APriorityMayBeRefusedForItsOwnBoundWhileOthersAreTaken) {
  config_.priority_levels = 3;
  config_.default_priority = 2;
  config_.queue_policies.by_priority[3] = {.max_queue_size = 2};
  one_level(1);
  Gate gate;
  auto running = hold(gate);
  const auto of_priority = [](std::uint64_t priority) {
    Request asked = request();
    asked.priority = priority;
    return asked;
  };
  std::vector<std::future<Result<Response>>> taken;
  for (int i = 0; i < 2; ++i) taken.push_back(send(of_priority(3)));
  const auto refused = infer(of_priority(3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  EXPECT_THAT(refused.error().message,
              HasSubstr("level 1 'cpu': as many requests of priority 3 wait as may: 2"));
  for (const std::uint64_t priority : {0, 1, 2}) taken.push_back(send(of_priority(priority)));
  gate.open();
  EXPECT_TRUE(running.get());
  for (auto& answer : taken) EXPECT_TRUE(answer.get());
}

TEST_F(SchedulingTest, WithoutPriorityLevelsAllFromTheThirdOnAreOnePriorityAndATierIsNone) {
  config_.queue_policies.usual.max_queue_size = 1;
  one_level(1);
  Gate gate;
  auto running = hold(gate);
  const auto of_priority = [](std::uint64_t priority, std::optional<Tier> tier = std::nullopt) {
    Request asked = request();
    asked.priority = priority;
    asked.tier = tier;
    return asked;
  };
  auto third = send(of_priority(3));
  EXPECT_FALSE(infer(of_priority(4)));
  auto standard = send(of_priority(777, Tier::kStandard));
  EXPECT_FALSE(infer(of_priority(778, Tier::kStandard)));
  gate.open();
  EXPECT_TRUE(running.get());
  EXPECT_TRUE(third.get());
  EXPECT_TRUE(standard.get());
}

TEST_F(SchedulingTest, AnIdleLevelThatWasOnceSlowRefusesNothingThatItLikelyMakes) {
  support::ManualClock clock;
  clock_ = &clock;
  Duration run = 1ms;
  levels_[1]->before = [&] {
    clock.advance(run);
    return Result<void>();
  };
  one_level(1);
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(infer_within(10s));
  run = 400ms;
  ASSERT_TRUE(infer_within(10s));
  run = 1ms;
  for (int i = 0; i < 5; ++i) {
    const auto response = infer_within(200ms);
    EXPECT_TRUE(response) << response.error().message;
  }
  engine_.reset();
}

TEST_F(SchedulingTest, WhatCannotMakeItsDeadlineIsRefusedAtOnceOnceTheLevelIsKnown) {
  support::ManualClock clock;
  clock_ = &clock;
  one_level(1);
  levels_[1]->before = [&] {
    clock.advance(20ms);  // what the run takes
    return Result<void>();
  };
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(infer_within(10s));
  infer_within(5ms);  // once a second it is tried all the same
  const int before = levels_[1]->runs;
  const auto refused = infer_within(5ms);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  EXPECT_THAT(refused.error().message, HasSubstr("it would answer after the deadline"));
  EXPECT_LE(levels_[1]->runs, before + 1) << "the one before may have begun since";
  engine_.reset();
}

TEST_F(SchedulingTest, HalvesTheBatchLimitWhenTheDeviceFindsNoMemory) {
  one_level(8);
  Gate gate;
  auto running = hold(gate);
  std::vector<std::future<Result<Response>>> answers;
  for (int i = 0; i < 8; ++i) answers.push_back(send(request()));
  levels_[1]->before_values = [](std::span<const float> values) -> Result<void> {
    if (values.size() <= 4) return {};
    return fail(Code::kUnavailable, "Failed to allocate memory for requested buffer of size 42");
  };
  gate.open();
  EXPECT_TRUE(running.get());
  for (auto& answer : answers) EXPECT_FALSE(answer.get()) << "there is no next level";
  Gate again;
  running = hold(again);
  answers.clear();
  for (int i = 0; i < 8; ++i) answers.push_back(send(request()));
  again.open();
  EXPECT_TRUE(running.get());
  for (auto& answer : answers) EXPECT_TRUE(answer.get());
}

class TiersOnTheLadderTest : public EngineTest {
 protected:
  void two_levels(double share) {
    config_.levels = {level_config(0, "gpu", "CUDAExecutionProvider"),
                      level_config(1, "cpu", "CPUExecutionProvider")};
    config_.levels[0].batch_tier_share = share;
    start_and_load();
  }
  int level_of(config::Tier tier) {
    Request asked = request();
    asked.tier = tier;
    const auto response = infer(std::move(asked));
    return response ? response->origin.level : -1;
  }
};

TEST_F(TiersOnTheLadderTest, AnIdleGpuTakesBatchWork) {
  two_levels(0.5);
  EXPECT_EQ(level_of(Tier::kBatch), 0);
}

TEST_F(TiersOnTheLadderTest, BatchWorkGoesToTheCpuWhileOthersHoldTheGpu) {
  two_levels(1);
  Gate gate;
  levels_[0]->before = gate.wait();
  const int before = levels_[0]->runs;
  Request asked = request();
  asked.tier = Tier::kRealtime;
  auto realtime = send(std::move(asked));
  wait_for([&] { return levels_[0]->runs == before + 1; });
  EXPECT_EQ(level_of(Tier::kBatch), 1);
  gate.open();
  EXPECT_EQ(realtime.get()->origin.level, 0);
}

TEST_F(TiersOnTheLadderTest, BatchWorkThatHasUsedUpItsShareGoesToTheCpu) {
  two_levels(0.001);
  levels_[0]->before = [] {
    std::this_thread::sleep_for(300ms);  // what the run takes
    return Result<void>();
  };
  std::vector<int> levels;
  for (int i = 0; i < 5; ++i) levels.push_back(level_of(Tier::kBatch));
  EXPECT_EQ(levels.front(), 0);
  EXPECT_EQ(levels.back(), 1) << "a second is all that was saved up";
  EXPECT_EQ(level_of(Tier::kStandard), 0) << "the share binds nobody else";
}

TEST_F(TiersOnTheLadderTest, WhereOnlyAGpuIsLeftBatchWorkWaitsForIt) {
  two_levels(0);
  levels_[1]->before = [] { return Result<void>(fail(Code::kUnavailable, "no")); };
  EXPECT_EQ(level_of(Tier::kBatch), 0);
}

class SuspectTest : public EngineTest {
 protected:
  // Which of the levels run in a worker process, as far as requests can tell.
  void ladder(std::initializer_list<bool> isolated) {
    config_.levels.clear();
    int number = 0;
    for (const bool process : isolated) {
      config::LevelConfig level =
          level_config(number, "l" + std::to_string(number), "CPUExecutionProvider");
      level.isolation = process ? config::Isolation::kProcess : config::Isolation::kNone;
      config_.levels.push_back(level);
      ++number;
    }
    start_and_load();
  }
  void lose_workers(std::initializer_list<int> of) {
    for (const int level : of) {
      levels_[level]->before = [] {
        return Result<void>(fail(Code::kWorkerLost, "worker 7 was killed by signal 11"));
      };
    }
  }
};

TEST_F(SuspectTest, AfterOneLostWorkerARequestGoesToIsolatedLevelsOnly) {
  ladder({true, false, true});
  lose_workers({0});
  const auto response = infer();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->origin.level, 2) << "level 1 is in this process";
}

TEST_F(SuspectTest, WhereNoIsolatedLevelIsLeftItIsAnsweredAllTheSame) {
  ladder({true, false, false});
  lose_workers({0});
  const auto response = infer();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->origin.level, 1);
}

TEST_F(SuspectTest, AfterTwoLostWorkersItIsNotTriedAgain) {
  ladder({true, true, false});
  lose_workers({0, 1});
  const int before = levels_[2]->runs;
  const auto response = infer();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kInternal);
  EXPECT_THAT(response.error().message, HasSubstr("two workers were lost while it ran there"));
  EXPECT_EQ(levels_[2]->runs, before);
}

TEST_F(SuspectTest, IsNotHedgedIntoThisProcess) {
  config_.levels = {level_config(0, "l0", "CUDAExecutionProvider"),
                    level_config(1, "l1", "CUDAExecutionProvider"),
                    level_config(2, "l2", "CPUExecutionProvider")};
  config_.levels[1].device_ids = {1};
  start_and_load();
  lose_workers({0});
  levels_[1]->hangs = true;
  const int before = levels_[2]->runs;
  Request asked = request();
  asked.timeout = std::chrono::milliseconds(200);
  const auto response = infer(asked);
  levels_[1]->hangs = false;
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDeadline);
  EXPECT_EQ(levels_[2]->runs, before);
}

TEST_F(SuspectTest, ASuspectRunsAlone) {
  ladder({true, true});
  for (auto& [number, level] : levels_) level->before = [] { return Result<void>(); };
  for (config::LevelConfig& level : config_.levels) {
    level.max_batch_size = 8;
    level.join = config::Join::kAlways;
  }
  start_and_load();
  Gate gate;
  std::atomic<int> inside{0};
  levels_[0]->before = [] {
    return Result<void>(fail(Code::kWorkerLost, "worker 7 was killed by signal 11"));
  };
  levels_[1]->before = [&inside, wait = gate.wait()] {
    ++inside;
    return wait();
  };
  const std::size_t before = levels_[1]->batches().size();
  std::vector<std::future<Result<Response>>> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(send(request()));
  wait_for([&] { return inside > 0; });
  gate.open();
  for (auto& answer : answers) EXPECT_TRUE(answer.get());
  auto sizes = levels_[1]->batches();
  sizes.erase(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(before));
  for (const std::int64_t size : sizes) EXPECT_EQ(size, 1);
}

TEST_F(SuspectTest, OtherFailuresMakeNoSuspect) {
  ladder({true, false, true});
  levels_[0]->before = [] { return Result<void>(fail(Code::kUnavailable, "device lost")); };
  EXPECT_EQ(infer()->origin.level, 1);
}

}  // namespace
}  // namespace gradus::serving
