// Without an order the provider is a device like any other, with the CPU provider's answers to the
// bit.
#include <gmock/gmock.h>

#include "fixture.h"

namespace gradus::fault {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

using FaultProvider = FaultTest;

class SameAnswers : public FaultTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SameAnswers, AsTheCpuProviderGivesToTheBit) {
  const auto runtime = registered();
  const std::string file = runtime::demo(std::string("models/") + GetParam());
  for (const int threads : {1, 2}) {
    LoadSpec faulty = spec(file);
    LoadSpec cpu = runtime::on({{runtime::kCpu, {}}}, file);
    faulty.threads = cpu.threads = threads;
    const auto expected = loaded(*runtime, cpu);
    const auto got = loaded(*runtime, faulty);
    for (const std::int64_t size : {16, 40, 16}) {
      const auto right = outputs(*expected, size);
      const auto answer = outputs(*got, size);
      ASSERT_TRUE(right && answer);
      EXPECT_FALSE(right->at(0).empty());
      EXPECT_EQ(*answer, *right) << "threads " << threads << ", size " << size;
    }
  }
  EXPECT_GT(control_.counters().ok, 6u) << "it was this provider that ran them";
}

INSTANTIATE_TEST_SUITE_P(DemoModels, SameAnswers,
                         ::testing::Values("fashion/1/model.onnx", "fashion/1/model.fp16.onnx",
                                           "fashion/1/model.int8.onnx", "langid/1/model.onnx",
                                           "langid/1/model.int8.onnx", "langid/1/model.small.onnx"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

TEST_F(FaultProvider, ComputesWithAsManyThreadsAsTheLevelHas) {
  const auto runtime = registered();
  const auto threads_for = [&](LoadSpec spec, long expected) {
    spec.threads = 4;
    return runtime::threads_started(expected, [&] { return loaded(*runtime, spec); });
  };
  EXPECT_EQ(threads_for(runtime::on({{runtime::kCpu, {}}}, fashion()), 3), 3);
  EXPECT_EQ(threads_for(spec(), 6), 6) << "the session that asks, and the CPU's behind it";
}

TEST_F(FaultProvider, GivesRealImagesTheirRealLabels) {
  const auto runtime = registered();
  const auto cpu = runtime::load_cpu(*runtime, fashion());
  EXPECT_EQ(runtime::fashion_labels(*loaded(*runtime, spec()), 200),
            runtime::fashion_labels(*cpu, 200));
}

TEST_F(FaultProvider, IsListedAndGetsEveryNode) {
  const auto runtime = registered();
  EXPECT_THAT(runtime->providers(), Contains(kFaultProvider));
  const auto made = runtime->load(spec());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->provider_used, kFaultProvider);
  EXPECT_EQ(made->node_share, 1.0);
  ASSERT_EQ(made->backend->placement().size(), 1u);
  EXPECT_EQ(made->backend->placement()[0].provider, kFaultProvider);
  EXPECT_GT(made->backend->placement()[0].nodes, 10u) << "fused nodes are counted one by one";
}

TEST_F(FaultProvider, IsTakenForAGpuThatNeedsNoSoftwareGpuToBeAllowed) {
  LoadSpec strict = spec();
  strict.allow_software_gpu = false;
  EXPECT_EQ(why_not(*registered(), strict), "");
}

TEST_F(FaultProvider, CountsWhatItIsUsedFor) {
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec());
  const Counters before = control_.counters();
  EXPECT_EQ(before.created, 1u);
  EXPECT_EQ(before.compiled, 1u);
  EXPECT_GE(before.runs, 1u) << "the load's probe";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(error_of_run(*backend), "");
  const Counters after = control_.counters();
  EXPECT_EQ(after.runs, before.runs + 5);
  EXPECT_EQ(after.ok, before.ok + 5);
  EXPECT_EQ(after.injected, 0u);
  EXPECT_EQ(after.last_pid, static_cast<std::uint32_t>(getpid()));
}

TEST_F(FaultProvider, PassesStringsThroughWithTheirZeroBytes) {
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec(runtime::own_model("lower.onnx")));
  const std::vector<char> words = {4, 0, 0, 0, 'A', 'b', '\0', 'C', 0, 0, 0, 0, 1, 0, 0, 0, 'Z'};
  const auto answer = runtime::run_all(*backend, {runtime::view(DType::kBytes, {3}, words)});
  ASSERT_TRUE(answer) << answer.error().message;
  const std::vector<char> lowered = {4, 0, 0, 0, 'a', 'b', '\0', 'c', 0, 0, 0, 0, 1, 0, 0, 0, 'z'};
  EXPECT_EQ(runtime::values_of<char>(answer->at(0)), lowered);
}

TEST_F(FaultProvider, RunsScalarsAndEveryType) {
  const auto runtime = registered();
  for (const char* model : {"scalar/1/model.onnx", "every_type/1/model.onnx"}) {
    const std::string file = runtime::shared_model(model);
    const auto got = outputs(*loaded(*runtime, spec(file)));
    const auto expected = outputs(*runtime::load_cpu(*runtime, file));
    ASSERT_TRUE(got && expected) << model;
    EXPECT_EQ(*got, *expected) << model;
  }
}

TEST_F(FaultProvider, RunsTensorsWithoutElements) {
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec(runtime::own_model("quotient.onnx")));
  const std::vector<float> none;
  const std::vector empty(2, runtime::view(DType::kFp32, {0}, none));
  const auto answer = runtime::run_all(*backend, empty);
  ASSERT_TRUE(answer) << answer.error().message;
  for (const Tensor& tensor : *answer) {
    EXPECT_EQ(tensor.shape, (Shape{0}));
    EXPECT_TRUE(tensor.data.empty());
  }
}

TEST_F(FaultProvider, GivesOnlyTheOutputsThatAreAskedFor) {
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec(runtime::own_model("quotient.onnx")));
  const std::vector<float> x = {1, 3};
  const std::vector<float> y = {4, 2};
  const std::vector inputs = {runtime::view(DType::kFp32, {2}, x),
                              runtime::view(DType::kFp32, {2}, y)};
  const std::vector<std::size_t> wanted = {3, 0};
  const auto answer = backend->run(inputs, wanted);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->size(), 2u);
  EXPECT_THAT(runtime::values_of<double>(answer->at(0)), ElementsAre(0.25, 1.5));
  EXPECT_THAT(runtime::values_of<float>(answer->at(1)), ElementsAre(0.25F, 1.5F));
}

TEST_F(FaultProvider, RunsGraphsWithBranchesAndAnInputThatNothingReads) {
  const auto runtime = registered();
  const auto made = runtime->load(spec(GRADUS_FAULT_TEST_MODELS "/branches.onnx"));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->node_share, 1.0);
  const std::vector<float> x = {1, -2, 3};
  const std::vector<std::uint8_t> up = {1};
  const std::vector<std::uint8_t> down = {0};
  const std::vector<std::int64_t> unread = {7, 8};
  const auto run = [&](const std::vector<std::uint8_t>& which) {
    const auto answer =
        runtime::run_all(*made->backend, {runtime::view(DType::kBool, {}, which),
                                          runtime::view(DType::kFp32, {3}, x),
                                          runtime::view(DType::kInt64, {2}, unread)});
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? runtime::values_of<float>(answer->at(0)) : std::vector<float>{};
  };
  EXPECT_THAT(run(up), ElementsAre(2, -1, 4));
  EXPECT_THAT(run(down), ElementsAre(-1, 2, -3));
}

TEST_F(FaultProvider, RunsSideBySide) {
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec());
  const auto expected = outputs(*backend);
  ASSERT_TRUE(expected);
  std::vector<int> same(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int& count : same) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          const auto answer = outputs(*backend);
          count += answer && *answer == *expected ? 1 : 0;
        }
      });
    }
  }
  EXPECT_THAT(same, ElementsAre(20, 20, 20, 20));
}

TEST_F(FaultProvider, LeavesABadRequestTheRequestsFault) {
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec(runtime::own_model("table.onnx")));
  const std::vector<std::int64_t> beyond = {5};
  const auto answer = runtime::run_all(*backend, {runtime::view(DType::kInt64, {1}, beyond)});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kInvalid) << answer.error().message;
}

}  // namespace
}  // namespace gradus::fault
