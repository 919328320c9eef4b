// The engine's promises on a ladder of fake levels; what the real runtime does is e2e's business.
#include "serving/ladder_engine.h"

#include "unit/serving/engine_fixture.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class LadderEngineTest : public EngineTest {};

TEST_F(LadderEngineTest, TheBestLevelAnswersAndSaysSo) {
  start_and_load();
  const auto response = infer();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(value(*response), 6);
  EXPECT_EQ(response->id, "42");
  EXPECT_EQ(response->outputs[0].name, "y");
  EXPECT_EQ(response->origin.level, 0);
  EXPECT_EQ(response->origin.level_name, "gpu");
  EXPECT_EQ(response->origin.variant, "gpu.onnx");
  EXPECT_FALSE(response->origin.degraded);
  EXPECT_GE(response->origin.latency, response->origin.run);
}

TEST_F(LadderEngineTest, AMissingGpuIsDegradedAndTellsTheReason) {
  load_errors_[0] = "CUDAExecutionProvider: libcuda.so.1: cannot open";
  start_and_load();
  const auto response = infer();
  ASSERT_TRUE(response);
  EXPECT_EQ(value(*response), 9);
  EXPECT_TRUE(response->origin.degraded);
  EXPECT_TRUE(engine_->ready());
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("libcuda.so.1: cannot open"));
}

// Joining is learned from one run of two samples; another one measures it.
TEST_F(LadderEngineTest, ALevelWhoseBatchEndsItsWorkerIsNotUp) {
  config_.levels = {config_.levels[1], config_.levels[2]};
  config_.levels[0].max_batch_size = 8;
  for (const int good_runs : {0, 1}) {
    for (const Code code : {Code::kWorkerLost, Code::kUnavailable}) {
      auto runs = std::make_shared<int>(0);
      levels_[1]->before_values = [=](std::span<const float> values) -> Result<void> {
        if (values.size() != 2 || ++*runs <= good_runs) return {};
        return fail(code, "hung for ever");
      };
      start_and_load();
      EXPECT_EQ(value(*infer()), code == Code::kWorkerLost ? 12 : 9);
      EXPECT_EQ(engine_->ladder_json("m", "")->find("hung for ever") != std::string::npos,
                code == Code::kWorkerLost);
      engine_.reset();
    }
  }
}

TEST_F(LadderEngineTest, AFailureIsAnsweredByTheNextLevelInTheSameRequest) {
  start_and_load();
  levels_[0]->before = [] { return Result<void>(fail(Code::kUnavailable, "device lost")); };
  const auto response = infer();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(value(*response), 9);
  EXPECT_TRUE(response->origin.degraded);
}

TEST_F(LadderEngineTest, WhatRunsOnALevelGoesOnToItsEndWhenTheLevelIsDisabled) {
  start_and_load();
  levels_[0]->hangs = true;
  const int runs = levels_[0]->runs;
  auto running = send(request());
  wait_for([&] { return levels_[0]->runs > runs; });
  const auto told = engine_->command("m", "", {.verb = LadderCommand::Verb::kDisable, .level = 0});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(*told, HasSubstr("\"state\":\"disabled\""));
  EXPECT_EQ(value(*infer()), 9);
  levels_[0]->hangs = false;
  EXPECT_EQ(value(*running.get()), 6);
  EXPECT_EQ(engine_->model_names(), (std::vector<std::string>{"broken", "m"}));
  EXPECT_FALSE(engine_->command("other", "", {}));
}

TEST_F(LadderEngineTest, FailuresInARowMoveTheLadderAndLaterRequestsSkipTheLevel) {
  start_and_load();
  levels_[0]->before = [] { return Result<void>(fail(Code::kUnavailable, "device lost")); };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(infer());
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("\"current_level\":1"));
}

TEST_F(LadderEngineTest, AWorkerThatIsGoneIsALossToBeToldAndNoFailureOfTheRunsThatMeetIt) {
  start_and_load();
  levels_[0]->before = [] { return Result<void>(fail(Code::kNotFound, "worker 7 is gone")); };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(infer()->origin.level, 1);
  const std::string ladder = *engine_->ladder_json("m", "");
  EXPECT_THAT(ladder, HasSubstr("\"current_level\":0"));
  EXPECT_THAT(ladder, testing::Not(HasSubstr("\"breaker\":\"open\"")));
  EXPECT_THAT(ladder, HasSubstr("\"failed\":0"));
}

TEST_F(LadderEngineTest, ADeviceOfTwoThatDiesWithItsRunsIsNoFailureOfTheLevel) {
  config_.levels[0].device_ids = {0, 1};
  start_and_load();
  levels_[0]->before = [] { return Result<void>(fail(Code::kWorkerLost, "signal 9")); };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(infer()->origin.level, 1);
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("\"current_level\":0"));
}

TEST_F(LadderEngineTest, ALevelComesBackHoweverSlowlyItWarmedUp) {
  config_.levels[0].target_p99 = 20ms;
  config_.levels[0].max_batch_size = 1;
  config_.policy.probe_every = 200ms;
  config_.policy.hold = config_.policy.breaker_open = 200ms;
  std::atomic<bool> busy{true};
  std::atomic<bool> broken{false};
  levels_[0]->before = [&] {
    if (busy) std::this_thread::sleep_for(30ms);  // what a run takes meanwhile
    return broken ? Result<void>(fail(Code::kUnavailable, "device lost")) : Result<void>();
  };
  start_and_load();
  busy = false;
  broken = true;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(infer());
  ASSERT_THAT(*engine_->ladder_json("m", ""), HasSubstr("\"current_level\":1"));
  broken = false;
  wait_for([this] {
    return engine_->ladder_json("m", "")->find("\"current_level\":0") != std::string::npos;
  });
}

TEST_F(LadderEngineTest, WhenEveryLevelFailsTheErrorNamesEachWithItsReason) {
  start_and_load();
  for (int i = 0; i < 3; ++i) {
    levels_[i]->before = [i] {
      return Result<void>(fail(Code::kInternal, "fault " + std::to_string(i)));
    };
  }
  const auto response = infer();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kUnavailable);
  EXPECT_EQ(response.error().message,
            "model 'm': no level that the request accepts could answer: level 0 'gpu': fault 0; "
            "level 1 'cpu': fault 1; level 2 'small': fault 2");
}

TEST_F(LadderEngineTest, ARequestThatEveryLevelRefusesIsTheClientsAndNoFailureOfALevel) {
  start_and_load();
  for (int i = 0; i < 3; ++i) {
    levels_[i]->before = [i] {
      return Result<void>(fail(Code::kInvalid, "bad shape " + std::to_string(i)));
    };
  }
  for (int i = 0; i < 5; ++i) {
    const auto response = infer();
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, Code::kInvalid);
    EXPECT_EQ(response.error().message, "model 'm': bad shape 0");
  }
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("\"current_level\":0"));
  EXPECT_THAT(*engine_->ladder_json("m", ""), testing::Not(HasSubstr("\"breaker\":\"open\"")));
}

TEST_F(LadderEngineTest, ALevelThatCannotTakeARequestPassesItOn) {
  start_and_load();
  levels_[0]->before = [] { return Result<void>(fail(Code::kInvalid, "batch of 1 only")); };
  const auto response = infer();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->origin.level, 1);
}

TEST_F(LadderEngineTest, TheBestLevelSaysWhatTheModelIs) {
  levels_[1]->input = "image";  // levels 0 and 2 have `x`
  start_and_load();
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("has no input 'x' as a better level has"));
  levels_[0]->before = [] { return Result<void>(fail(Code::kUnavailable, "device lost")); };
  const auto response = infer();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->origin.level, 2);
}

TEST_F(LadderEngineTest, AMalformedRequestNeverReachesALevel) {
  start_and_load();
  const int before = levels_[0]->runs;
  Request bad = request();
  bad.inputs[0].name = "z";
  EXPECT_EQ(infer(bad).error().message, "model 'm': unknown input 'z'; the model's inputs are 'x'");
  EXPECT_EQ(levels_[0]->runs, before);
}

TEST_F(LadderEngineTest, ARequestStaysWithinTheLevelsItAccepts) {
  start_and_load();
  Request only_small = request();
  only_small.min_level = 2;
  EXPECT_EQ(value(*infer(only_small)), 12);
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("\"urgent\":false")) << "it is its wish";

  levels_[0]->before = [] { return Result<void>(fail(Code::kUnavailable, "device lost")); };
  Request only_gpu = request();
  only_gpu.max_level = 0;
  const auto refused = infer(only_gpu);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);

  Request beyond = request();
  beyond.min_level = 3;
  EXPECT_EQ(infer(beyond).error().message, "min_level = 3: model 'm' has no level worse than 2");
}

TEST_F(LadderEngineTest, TheDeadlineAnswersWhileTheLevelHangs) {
  start_and_load();
  std::promise<void> open;
  auto opened = open.get_future().share();
  levels_[0]->before = [opened] {
    opened.wait();
    return Result<void>();
  };
  wait_for([&] {  // on a busy machine one may not even begin
    Request hurried = request();
    hurried.timeout = 30ms;
    hurried.max_level = 0;
    const auto response = infer(hurried);
    if (response) {
      ADD_FAILURE() << "it was answered";
      return true;
    }
    EXPECT_EQ(response.error().code, Code::kDeadline);
    EXPECT_GE(steady_clock().now() - hurried.arrival, 30ms);
    return response.error().message.find(
               "the deadline of 30000 us passed before a level answered: level 0 'gpu': it had run "
               "for ") != std::string::npos;
  });
  open.set_value();
}

TEST_F(LadderEngineTest, AnExpiredRequestIsNeverRun) {
  start_and_load();
  std::promise<void> open;
  auto opened = open.get_future().share();
  levels_[0]->before = [opened] {
    opened.wait();
    return Result<void>();
  };
  const int before = levels_[0]->runs;
  auto holder = send(request());  // occupies the only run of level 0
  wait_for([&] { return levels_[0]->runs == before + 1; });
  Request hurried = request();
  hurried.timeout = 10ms;
  hurried.max_level = 0;
  EXPECT_EQ(infer(hurried).error().code, Code::kDeadline);
  open.set_value();
  ASSERT_TRUE(holder.get());
  ASSERT_TRUE(infer());
  EXPECT_EQ(levels_[0]->runs, before + 2) << "the holder and the last one";
}

TEST_F(LadderEngineTest, AFullQueueRefusesOnlyWhenNoOtherLevelTakesTheRequest) {
  config_.levels = {level_config(0, "gpu", "CUDAExecutionProvider")};
  start_and_load(2);
  std::promise<void> open;
  auto opened = open.get_future().share();
  levels_[0]->before = [opened] {
    opened.wait();
    return Result<void>();
  };
  const int before = levels_[0]->runs;
  std::vector<std::future<Result<Response>>> taken;
  taken.push_back(send(request()));
  wait_for([&] { return levels_[0]->runs == before + 1; });
  taken.push_back(send(request()));
  taken.push_back(send(request()));
  const auto refused = infer();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  open.set_value();
  for (auto& answer : taken) EXPECT_TRUE(answer.get());
}

TEST_F(LadderEngineTest, ServesByTheQuickLevelWhileABetterOneStillLoads) {
  std::promise<void> open;
  auto opened = open.get_future().share();
  levels_[0]->before = [opened] {
    opened.wait();
    return Result<void>();
  };
  start();
  wait_for([this] { return engine_->model_ready("m", "").has_value(); });
  wait_for([this] { return engine_->ready(); });
  const auto early = infer();
  ASSERT_TRUE(early) << early.error().message;
  EXPECT_GE(early->origin.level, 1);
  EXPECT_TRUE(early->origin.degraded);
  open.set_value();
  wait_for([this] { return !engine_->loading(); });
  EXPECT_EQ(infer()->origin.level, 0);
}

TEST_F(LadderEngineTest, AGpuLevelRunsOnlyOnceTheNextLevelIsLoadedAndWarm) {
  Gate load;
  Gate warm_up;
  std::atomic<bool> gpu_loads{false};
  before_load_[0] = [&] { gpu_loads = true; };
  before_load_[1] = [wait = load.wait()] { std::ignore = wait(); };
  levels_[1]->before = warm_up.wait();
  start();
  wait_for([&] { return gpu_loads && engine_->model_ready("m", ""); });
  const auto expect_only_the_last = [&] {
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(infer()->origin.level, 2);
    EXPECT_EQ(levels_[0]->runs, 0);
  };
  expect_only_the_last();
  load.open();
  wait_for([&] { return levels_[1]->runs > 0; });
  expect_only_the_last();
  warm_up.open();
  wait_for([this] { return !engine_->loading(); });
  EXPECT_EQ(infer()->origin.level, 0);
}

TEST_F(LadderEngineTest, ABrokenModelNeverStopsTheOthersAndKeepsItsReason) {
  start_and_load();
  EXPECT_TRUE(infer());
  EXPECT_TRUE(engine_->ready());
  const auto broken = engine_->model_ready("broken", "");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::kUnavailable);
  EXPECT_THAT(broken.error().message, HasSubstr("levels = 7: must be a list"));
}

TEST_F(LadderEngineTest, UnknownNamesAndVersionsAreNotFound) {
  start_and_load();
  EXPECT_EQ(engine_->model_ready("n", "").error().code, Code::kNotFound);
  EXPECT_EQ(engine_->model_ready("m", "2").error().message, "model 'm' has no version 2, it has 1");
  Request other = request();
  other.model = "n";
  EXPECT_EQ(infer(other).error().code, Code::kNotFound);
}

TEST_F(LadderEngineTest, ADrainIsNotReadyButAnswers) {
  start_and_load();
  engine_->begin_drain();
  EXPECT_FALSE(engine_->ready());
  EXPECT_TRUE(infer());
}

TEST_F(LadderEngineTest, NoLevelAtAllIsNotReadyAndSaysWhy) {
  for (int i = 0; i < 3; ++i) load_errors_[i] = "no such file";
  start_and_load();
  EXPECT_FALSE(engine_->ready());
  const auto response = infer();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kUnavailable);
  EXPECT_THAT(response.error().message, HasSubstr("level 1 'cpu' unavailable: no such file"));
}

TEST_F(LadderEngineTest, AWorseLevelThatIsNoQuickerIsSkippedAndNeverAnswers) {
  config_.levels = {level_config(1, "cpu", "CPUExecutionProvider"),
                    level_config(2, "small", "CPUExecutionProvider")};
  for (auto& level : config_.levels) level.keep = config::Keep::kIfFaster;
  config_.levels[1].quality = 0.9;
  levels_[2]->before = [] {
    const TimePoint until = steady_clock().now() + 2ms;
    while (steady_clock().now() < until) {
    }
    return Result<void>();
  };
  start_and_load();
  EXPECT_THAT(*engine_->ladder_json("m", ""), HasSubstr("\"state\":\"skipped\""));
  Request only_small = request();
  only_small.min_level = 2;
  const auto refused = infer(only_small);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("level 2 'small' skipped: not over 10 % quicker"));
  EXPECT_FALSE(infer()->origin.degraded);
  EXPECT_THAT(*engine_->ladder_json("m", ""), testing::Not(HasSubstr("\"to\":null")))
      << "an answering level is there at every moment";
}

}  // namespace
}  // namespace gradus::serving
