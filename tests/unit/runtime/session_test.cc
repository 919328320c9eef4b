// Values in and out of a session: every type, shape and refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "base/cpu_count.h"
#include "fixture.h"
#include "runtime/sample_inputs.h"

namespace gradus::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(std::initializer_list<std::string_view> elements) {
  std::vector<std::byte> bytes;
  for (const std::string_view element : elements) append_bytes_element(bytes, element);
  return bytes;
}

// Bytes that are a valid value of any type: `count` elements of the type, counted up from 1.
std::vector<std::byte> pattern(DType dtype, std::size_t count) {
  if (dtype == DType::kBool) return std::vector<std::byte>(count, std::byte{1});
  std::vector<std::byte> bytes(count * element_size(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i + 1);
  return bytes;
}

// Runs every_type with `count` elements of each type, each input `offset` bytes off alignment.
void expect_identity(Backend& backend, std::size_t count, std::size_t offset) {
  const Signature& signature = backend.signature();
  ASSERT_EQ(signature.inputs.size(), 14u);
  std::vector<std::vector<std::byte>> sent;
  for (const TensorSpec& input : signature.inputs) {
    std::vector<std::byte> bytes;
    if (input.dtype == DType::kBytes) {
      for (std::size_t i = 0; i < count; ++i) {
        append_bytes_element(bytes, std::string_view("\xff\x00z\n", i % 5));
      }
    } else {
      bytes = pattern(input.dtype, count);
    }
    bytes.insert(bytes.begin(), offset, std::byte{0});
    sent.push_back(std::move(bytes));
  }
  std::vector<TensorView> inputs;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    inputs.push_back({signature.inputs[i].dtype,
                      {static_cast<std::int64_t>(count)},
                      std::span<const std::byte>(sent[i]).subspan(offset)});
  }
  const auto answer = run_all(backend, inputs);
  ASSERT_TRUE(answer) << answer.error().message;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& output = answer->at(i);
    EXPECT_EQ(output.dtype, inputs[i].dtype);
    EXPECT_EQ(output.shape, inputs[i].shape);
    EXPECT_TRUE(std::ranges::equal(output.data, inputs[i].data)) << signature.outputs[i].name;
  }
}

TEST(Session, EveryTypeComesBackBitForBit) {
  const auto backend = load_cpu(shared_model("every_type/1/model.onnx"));
  expect_identity(*backend, 7, 0);
}

TEST(Session, TakesBytesThatAreNotAligned) {
  const auto backend = load_cpu(shared_model("every_type/1/model.onnx"));
  expect_identity(*backend, 5, 1);
}

TEST(Session, TakesTensorsWithoutElements) {
  const auto backend = load_cpu(shared_model("every_type/1/model.onnx"));
  expect_identity(*backend, 0, 0);
}

TEST(Session, TakesScalars) {
  const auto backend = load_cpu(shared_model("scalar/1/model.onnx"));
  const auto answer = run_all(*backend, {view(DType::kFp32, {}, std::vector{21.0F})});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->at(0).shape, Shape{});
  EXPECT_THAT(values_of<float>(answer->at(0)), ElementsAre(42.0F));
}

TEST(Session, RunsStringOperators) {
  const auto backend = load_cpu(own_model("lower.onnx"));
  const auto sent = bytes_of({"Gradus", "", "ABC"});
  const auto answer = run_all(*backend, {{DType::kBytes, {3}, sent}});
  ASSERT_TRUE(answer) << answer.error().message;
  const auto elements = bytes_elements(answer->at(0).data, 3);
  ASSERT_TRUE(elements);
  EXPECT_THAT(*elements, ElementsAre("gradus", "", "abc"));
}

TEST(Session, OutputsOutliveTheSession) {
  auto backend = load_cpu(shared_model("scalar/1/model.onnx"));
  auto answer = run_all(*backend, {view(DType::kFp32, {}, std::vector{4.0F})});
  ASSERT_TRUE(answer);
  backend.reset();
  EXPECT_THAT(values_of<float>(answer->at(0)), ElementsAre(8.0F));
}

TEST(Session, GivesTheOutputsWantedInTheOrderWanted) {
  const auto backend = load_cpu(own_model("quotient.onnx"));
  ASSERT_EQ(backend->signature().outputs[3].name, "fp64");
  const auto x = std::vector{3.0F};
  const auto y = std::vector{2.0F};
  const std::vector<std::size_t> wanted = {3, 0};
  const auto answer =
      backend->run(std::vector{view(DType::kFp32, {1}, x), view(DType::kFp32, {1}, y)}, wanted);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->size(), 2u);
  EXPECT_THAT(values_of<double>(answer->at(0)), ElementsAre(1.5));
  EXPECT_THAT(values_of<float>(answer->at(1)), ElementsAre(1.5F));
}

TEST(Session, SignatureIsTheModels) {
  const auto backend = load_cpu(demo("models/langid/1/model.onnx"));
  const Signature& signature = backend->signature();
  ASSERT_EQ(signature.inputs.size(), 2u);
  EXPECT_EQ(signature.inputs[0].name, "input_ids");
  EXPECT_EQ(signature.inputs[0].dtype, DType::kInt64);
  EXPECT_EQ(signature.inputs[0].shape, (Shape{-1, -1}));
  ASSERT_EQ(signature.outputs.size(), 1u);
  EXPECT_EQ(signature.outputs[0].name, "logits");
  EXPECT_EQ(signature.outputs[0].shape, (Shape{-1, 8}));
}

TEST(Session, TakesOtherValuesForTheInitializersAskedFor) {
  const auto runtime = make_runtime();
  LoadSpec spec = on({{kCpu, {}}}, shared_model("scaled/1/model.onnx"));
  spec.overridable = {"shift", "x", "nothing"};
  const auto loaded = runtime->load(spec);
  ASSERT_TRUE(loaded) << loaded.error().message;
  Backend& backend = *loaded->backend;
  ASSERT_EQ(backend.signature().inputs.size(), 1U);
  ASSERT_EQ(backend.signature().optional_inputs.size(), 1U) << "scale was not asked for";
  EXPECT_EQ(backend.signature().optional_inputs[0].name, "shift");
  EXPECT_EQ(backend.signature().optional_inputs[0].shape, Shape{4});
  const std::vector<float> x = {1, 1, 1, 1}, shift = {10, 20, 30, 40};
  const std::vector<TensorView> both{view(DType::kFp32, {1, 4}, x), view(DType::kFp32, {4}, shift)};
  const std::vector<std::size_t> first{0};
  const auto sent = backend.run({both, first}, first);
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_THAT(values_of<float>(sent->at(0)), ElementsAre(11, 22, 33, 44));
  const auto left_out = backend.run(std::span(both).first(1), first);
  ASSERT_TRUE(left_out) << left_out.error().message;
  EXPECT_THAT(values_of<float>(left_out->at(0)), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(backend.run(both, first).error().message, "2 inputs, the model has 1");
}

TEST(Session, KeepsTheInitializersOfOldFiles) {
  const auto runtime = make_runtime();
  LoadSpec spec = on({{kCpu, {}}}, own_model("old.onnx"));
  spec.overridable = {"factor"};
  const auto loaded = runtime->load(spec);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded->backend->signature().optional_inputs.empty())
      << "ONNX Runtime takes them for constants";
}

TEST(Session, RefusesWhatTheModelRefuses) {
  const auto fashion = load_cpu(demo("models/fashion/1/model.small.onnx"));
  const std::vector<float> pixels(28 * 28);
  struct Case {
    std::vector<TensorView> inputs;
    const char* says;
  };
  for (const Case& c : {
           Case{{view(DType::kFp32, {1, 1, 27, 28}, pixels)}, "Got invalid dimensions"},
           Case{{view(DType::kFp32, {28, 28}, pixels)}, "Invalid rank"},
           Case{{view(DType::kInt32, {1, 1, 28, 28}, pixels)}, "Unexpected input data type"},
           Case{{view(DType::kFp32, {2, 1, 28, 28}, pixels)}, "not enough space"},
           Case{{}, "0 inputs, the model has 1"},
       }) {
    const auto answer = run_all(*fashion, c.inputs);
    ASSERT_FALSE(answer) << c.says;
    EXPECT_EQ(answer.error().code, Code::kInvalid) << answer.error().message;
    EXPECT_THAT(answer.error().message, HasSubstr(c.says));
  }
  EXPECT_TRUE(run_all(*fashion, {view(DType::kFp32, {1, 1, 28, 28}, pixels)}))
      << "still usable after refusals";
}

TEST(Session, RefusesMalformedBytes) {
  const auto backend = load_cpu(own_model("lower.onnx"));
  auto sent = bytes_of({"abc"});
  sent.pop_back();
  const auto answer = run_all(*backend, {{DType::kBytes, {1}, sent}});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kInvalid);
  EXPECT_THAT(answer.error().message, HasSubstr("input 'text'"));
}

TEST(Session, RefusesAnIndexOutsideItsTable) {
  const auto backend = load_cpu(own_model("table.onnx"));
  const auto answer = run_all(*backend, {view(DType::kInt64, {1}, std::vector<std::int64_t>{2})});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kInvalid);
  EXPECT_THAT(answer.error().message, HasSubstr("out of data bounds"));
}

TEST(Session, HasThreadsForItsNodesInParallelMode) {
  const auto runtime = make_runtime();
  LoadSpec spec = on({{kCpu, {}}}, demo("models/fashion/1/model.onnx"));
  spec.inter_op_threads = 4;
  const auto load = [&] { return std::move(runtime->load(spec).value().backend); };
  EXPECT_EQ(threads_started(0, load), 0) << "in sequential mode there is no use for them";
  const std::vector<int> expected = fashion_labels(*load(), 16);
  spec.execution_mode = config::ExecutionMode::kParallel;
  EXPECT_EQ(threads_started(3, load), 3) << "beside the one that asks";
  spec.threads = 3;
  EXPECT_EQ(threads_started(5, load), 5) << "and two within nodes";
  EXPECT_EQ(fashion_labels(*load(), 16), expected);
  spec.threads = 1;
  spec.inter_op_threads = 0;
  EXPECT_EQ(threads_started(usable_cpus() - 1, load), usable_cpus() - 1);
}

TEST(CheckOutputs, FindsNanAndInfinityInEveryFloatType) {
  const auto runtime = make_runtime();
  const auto checked =
      load_cpu(*runtime, own_model("quotient.onnx"), config::CheckOutputs::kFinite);
  const auto unchecked = load_cpu(*runtime, own_model("quotient.onnx"));
  const std::vector<float> good(9, 1.0F);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> dividend(9, 1.0F);
    dividend[7] = bad;
    const std::vector inputs = {view(DType::kFp32, {9}, dividend), view(DType::kFp32, {9}, good)};
    for (std::size_t output = 0; output < 4; ++output) {
      const auto answer = checked->run(inputs, std::span(&output, 1));
      ASSERT_FALSE(answer) << output;
      EXPECT_EQ(answer.error().code, Code::kUnavailable);
      EXPECT_EQ(answer.error().message,
                "output '" + checked->signature().outputs[output].name + "' is not finite");
      EXPECT_TRUE(unchecked->run(inputs, std::span(&output, 1)));
    }
  }
  const std::vector<float> small(9, 1e-42F);
  EXPECT_TRUE(run_all(*checked, {view(DType::kFp32, {9}, small), view(DType::kFp32, {9}, good)}))
      << "denormal numbers are finite";
}

TEST(FindSample, FindsTheSizeThatTheModelAccepts) {
  const auto backend = load_cpu(own_model("wide.onnx"));
  const auto sample = find_sample(*backend);
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(sample->size, 224);
}

TEST(FindSample, StaysInsideTables) {
  const auto backend = load_cpu(own_model("table.onnx"));
  for (const std::int64_t size : {1, 100}) {
    const auto inputs = sample_inputs(backend->signature(), size);
    EXPECT_TRUE(run_all(*backend, views_of(inputs)));
  }
}

}  // namespace
}  // namespace gradus::runtime
