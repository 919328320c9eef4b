#include "serving/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "serving/declared.h"
#include "serving/warmup.h"
#include "support/fake_backend.h"

namespace gradus::serving {
namespace {

using ::testing::ElementsAre;

const runtime::Signature kSignature{
    .inputs = {{"ids", DType::kInt64, {-1, -1}}, {"scale", DType::kFp32, {}}},
    .outputs = {{"logits", DType::kFp32, {-1, 8}}, {"state", DType::kFp32, {-1, 4}}}};

const std::vector<std::byte> kBytes(64);

NamedView ids(Shape shape, std::size_t bytes) {
  return {"ids", {DType::kInt64, std::move(shape), std::span(kBytes).first(bytes)}};
}
NamedView scale() { return {"scale", {DType::kFp32, {}, std::span(kBytes).first(4)}}; }

Request request(std::vector<NamedView> inputs, std::vector<std::string> outputs = {}) {
  Request made;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  return made;
}

std::string error_of(const Request& bad) {
  const auto bound = bind_request(bad, kSignature);
  EXPECT_FALSE(bound.has_value());
  if (bound) return "";
  EXPECT_EQ(bound.error().code, Code::kInvalid);
  return bound.error().message;
}

TEST(BindRequest, OrdersInputsAsTheModelHasThem) {
  const auto bound = bind_request(request({scale(), ids({1, 8}, 64)}), kSignature);
  ASSERT_TRUE(bound) << bound.error().message;
  EXPECT_EQ(bound->inputs[0].shape, (Shape{1, 8}));
  EXPECT_EQ(bound->inputs[1].shape, Shape{});
  EXPECT_THAT(bound->outputs, ElementsAre(0, 1)) << "no outputs named: all of them";
}

TEST(BindRequest, KeepsTheOrderOfTheOutputsAskedFor) {
  const auto bound =
      bind_request(request({scale(), ids({1, 8}, 64)}, {"state", "logits"}), kSignature);
  ASSERT_TRUE(bound);
  EXPECT_THAT(bound->outputs, ElementsAre(1, 0));
}

TEST(BindRequest, SaysWhatIsWrong) {
  EXPECT_EQ(error_of(request({ids({1, 8}, 64)})),
            "input 'scale' is missing; the model's inputs are 'ids', 'scale'");
  EXPECT_EQ(error_of(request({scale(), ids({1, 8}, 64), {"more", {}}})),
            "unknown input 'more'; the model's inputs are 'ids', 'scale'");
  EXPECT_EQ(error_of(request({scale(), scale(), ids({1, 8}, 64)})), "input 'scale' is there twice");
  EXPECT_EQ(error_of(request({scale(), ids({8}, 64)})),
            "input 'ids' has shape [8], expected [-1,-1]");
  EXPECT_EQ(error_of(request({scale(), ids({1, 7}, 64)})),
            "input 'ids' has 64 bytes, shape [1,7] of INT64 needs 7 x 8");
  EXPECT_EQ(error_of(request(
                {{"scale", {DType::kFp64, {}, std::span(kBytes).first(8)}}, ids({1, 8}, 64)})),
            "input 'scale' has datatype FP64, expected FP32");
  EXPECT_EQ(error_of(request({scale(), ids({1, 8}, 64)}, {"logit"})),
            "unknown output 'logit'; the model's outputs are 'logits', 'state'");
  EXPECT_EQ(error_of(request({scale(), ids({1, 8}, 64)}, {"state", "state"})),
            "output 'state' is requested twice");
}

// Clients see `x` as [batch, 8, n], the model has [batch, 2, 4, n].
const runtime::Signature kBatched{
    .inputs = {{"x", DType::kFp32, {-1, 2, 4, -1}}, {"y", DType::kFp32, {-1}}},
    .outputs = {{"z", DType::kFp32, {-1, 4}}}};

config::Declared batched() {
  return {.max_batch_size = 2,
          .inputs = {{.name = "x", .datatype = "FP32", .dims = {{8, -1}}, .reshape = {{2, 4, -1}}}},
          .outputs = {{.name = "z", .datatype = "FP32", .dims = {{4, 1}}, .reshape = {{4}}}}};
}

NamedView floats(const char* name, Shape shape) {
  static const std::vector<std::byte> zeros(1024);
  const auto count = element_count(shape);
  return {name, {DType::kFp32, std::move(shape), std::span(zeros).first(*count * 4)}};
}

std::string declared_error(std::vector<NamedView> inputs, const config::Declared& declared) {
  const auto bound = bind_request(request(std::move(inputs)), kBatched, declared);
  return bound ? "" : bound.error().message;
}

TEST(DeclaredRequest, IsBoundInTheModelsShape) {
  const auto bound =
      bind_request(request({floats("x", {2, 8, 3}), floats("y", {2})}), kBatched, batched());
  ASSERT_TRUE(bound) << bound.error().message;
  EXPECT_EQ(bound->inputs[0].shape, (Shape{2, 2, 4, 3}));
  EXPECT_EQ(bound->inputs[1].shape, (Shape{2})) << "of which nothing is declared";
}

TEST(DeclaredRequest, IsHeldAgainstWhatIsDeclared) {
  EXPECT_EQ(declared_error({floats("x", {2, 2, 4, 3}), floats("y", {2})}, batched()),
            "input 'x' has shape [2,2,4,3], expected [-1,8,-1]");
  EXPECT_EQ(declared_error({floats("x", {3, 8, 1}), floats("y", {3})}, batched()),
            "input 'x' has a batch of 3, max_batch_size is 2");
  EXPECT_EQ(declared_error({floats("x", {2, 8, 1}), floats("y", {1})}, batched()),
            "input 'y' has a batch of 1, input 'x' one of 2");
  config::Declared whole = batched();
  whole.max_batch_size = 0;
  whole.inputs = {{.name = "y", .datatype = "FP32", .dims = {{5}}}};
  EXPECT_EQ(declared_error({floats("x", {1, 2, 4, 1}), floats("y", {6})}, whole),
            "input 'y' has shape [6], expected [5]");
  EXPECT_EQ(declared_error({floats("x", {9, 2, 4, 1}), floats("y", {5})}, whole), "")
      << "no batch, no bound";
}

TEST(Declared, IsWhatClientsSeeOfTheModel) {
  const runtime::Signature shown = shown_signature(batched(), kBatched);
  EXPECT_EQ(shown.inputs[0].shape, (Shape{-1, 8, -1}));
  EXPECT_EQ(shown.inputs[1].shape, (Shape{-1}));
  EXPECT_EQ(shown.outputs[0].shape, (Shape{-1, 4, 1}));
  const config::Declared declared = batched();
  EXPECT_EQ(client_shape(declared, declared.outputs[0], {2, 4}), (Shape{2, 4, 1}));
  EXPECT_EQ(client_shape(declared, declared.outputs[0], {2, 5}), (Shape{2, 5})) << "no such output";
}

TEST(Declared, IsHeldAgainstTheModel) {
  EXPECT_EQ(contradiction(batched(), kBatched), "");
  config::Declared wrong = batched();
  wrong.outputs[0].reshape = {{5}};
  EXPECT_EQ(
      contradiction(wrong, kBatched),
      "output 'z' is declared with shape [-1,5] by its reshape, the batch included; the model "
      "has [-1,4]");
  EXPECT_TRUE(is_batched({}, kBatched));
  EXPECT_FALSE(is_batched({.max_batch_size = 0, .inputs = {}, .outputs = {}}, kBatched));
  EXPECT_FALSE(is_batched({}, kSignature)) << "it has a scalar";
}

// `x` and what may take the place of two initializers, one of them with a batch.
const runtime::Signature kWithOptional{
    .inputs = {{"x", DType::kFp32, {-1, 4}}},
    .outputs = {{"y", DType::kFp32, {-1, 4}}},
    .optional_inputs = {{"scale", DType::kFp32, {-1, 4}}, {"shift", DType::kFp32, {4}}}};

config::DeclaredTensor optional_input(const char* name, Shape dims) {
  return {
      .name = name, .datatype = "FP32", .dims = std::move(dims), .reshape = {}, .optional = true};
}

TEST(OptionalInput, MayBeSentOrLeftOut) {
  const auto bound_of = [](std::vector<NamedView> inputs) {
    return bind_request(request(std::move(inputs)), kWithOptional).value();
  };
  EXPECT_THAT(bound_of({floats("x", {2, 4})}).optional, ElementsAre());
  const BoundRequest one = bound_of({floats("shift", {4}), floats("x", {2, 4})});
  EXPECT_THAT(one.optional, ElementsAre(1));
  ASSERT_EQ(one.inputs.size(), 2U);
  EXPECT_EQ(one.inputs[1].shape, Shape{4});
  const BoundRequest all =
      bound_of({floats("shift", {4}), floats("x", {2, 4}), floats("scale", {2, 4})});
  EXPECT_THAT(all.optional, ElementsAre(0, 1));
  EXPECT_EQ(all.inputs[1].shape, (Shape{2, 4}));
  EXPECT_EQ(all.inputs[2].shape, Shape{4});
}

TEST(OptionalInput, IsHeldAgainstTheModelAndItsDeclaration) {
  const auto error = [](std::vector<NamedView> inputs, const config::Declared& declared = {}) {
    const auto bound = bind_request(request(std::move(inputs)), kWithOptional, declared);
    return bound ? "" : bound.error().message;
  };
  EXPECT_EQ(error({floats("shift", {4})}),
            "input 'x' is missing; the model's inputs are 'x', 'scale', 'shift'");
  EXPECT_EQ(error({floats("x", {1, 4}), floats("gain", {4})}),
            "unknown input 'gain'; the model's inputs are 'x', 'scale', 'shift'");
  EXPECT_EQ(error({floats("x", {1, 4}), floats("shift", {4}), floats("shift", {4})}),
            "input 'shift' is there twice");
  EXPECT_EQ(error({floats("x", {1, 4}), floats("shift", {5})}),
            "input 'shift' has shape [5], expected [4]");
  const config::Declared batched{
      .max_batch_size = 8, .inputs = {optional_input("scale", {4})}, .outputs = {}};
  EXPECT_EQ(error({floats("x", {2, 4}), floats("scale", {1, 4})}, batched),
            "input 'scale' has a batch of 1, input 'x' one of 2");
  EXPECT_EQ(error({floats("x", {2, 4}), floats("scale", {2, 4})}, batched), "");
}

TEST(OptionalInput, IsAnInputOfTheModelWhereItIsDeclared) {
  const auto why = [](std::vector<config::DeclaredTensor> inputs, std::uint32_t batch = 0) {
    return contradiction({.max_batch_size = batch, .inputs = std::move(inputs), .outputs = {}},
                         kWithOptional);
  };
  EXPECT_EQ(why({optional_input("scale", {-1, 4}), optional_input("shift", {4})}), "");
  EXPECT_EQ(why({optional_input("shift", {5})}),
            "input 'shift' is declared with shape [5]; the model has [4]");
  EXPECT_EQ(why({optional_input("scale", {4})}, 8),
            "max_batch_size is 8, but the model's input 'shift' has shape [4], whose first "
            "dimension is no batch; set max_batch_size to 0 and give whole shapes");
  EXPECT_EQ(why({optional_input("x", {-1, 4})}),
            "input 'x' is declared optional, but the model has no value for it: requests must "
            "send it");
  config::DeclaredTensor needed = optional_input("shift", {4});
  needed.optional = false;
  EXPECT_EQ(why({needed}),
            "input 'shift' is an initializer of the model, so that requests may leave it out: it "
            "must be declared with optional: true");
  EXPECT_EQ(why({optional_input("gain", {4})}),
            "input 'gain' is declared optional, but the model's inputs are 'x', and no "
            "initializer of that name may be overridden (it must be listed among the graph's "
            "inputs, in a file of ONNX IR version 4 or later)");

  const config::Declared declared{
      .max_batch_size = 0, .inputs = {optional_input("scale", {2, 4})}, .outputs = {}};
  EXPECT_EQ(shown_signature(declared, kWithOptional).optional_inputs[0].shape, (Shape{2, 4}));
  EXPECT_FALSE(is_batched({}, kWithOptional)) << "shift has no batch";
}

TEST(OptionalInput, MakesLevelsDiffer) {
  runtime::Signature other = kWithOptional;
  EXPECT_EQ(difference(kWithOptional, other), "");
  other.optional_inputs[1].dtype = DType::kFp16;
  EXPECT_EQ(difference(kWithOptional, other),
            "optional input 'shift' is FP16 [4], in a better level FP32 [4]");
}

TEST(Warmup, RunsEachSampleAsOftenAsItSays) {
  const auto fake = std::make_shared<support::FakeLevel>();
  LevelRuntime level;
  level.backend = std::make_unique<support::FakeBackend>(fake);
  std::vector<std::vector<float>> given;
  fake->before_values = [&given](std::span<const float> values) {
    given.emplace_back(values.begin(), values.end());
    return Result<void>();
  };
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "gradus-warm-up";
  const float value = 7;
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&value), sizeof value);
  using Data = config::WarmupInput::Data;
  config::ModelConfig config;
  config.declared.max_batch_size = 2;
  config.warmup = {
      {.name = "zeros", .batch_size = 1, .runs = 2, .inputs = {{"x", "FP32", {}, Data::kZero, {}}}},
      {.name = "file",
       .batch_size = 2,
       .runs = 1,
       .inputs = {{"x", "FP32", {}, Data::kFile, file}}}};
  const auto warm = run_warmup(level, config);
  ASSERT_TRUE(warm) << warm.error().message;
  EXPECT_THAT(given, ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(7, 7)));

  std::filesystem::remove(file);
  EXPECT_EQ(run_warmup(level, config).error().message,
            "warm-up sample 'file': " + file.string() + ": cannot be read");
  config.warmup[0].inputs.clear();
  EXPECT_EQ(run_warmup(level, config).error().message,
            "warm-up sample 'zeros': input 'x' is missing; the model's inputs are 'x'");
}

TEST(Warmup, GivesTheOptionalInputsThatASampleHas) {
  const auto fake = std::make_shared<support::FakeLevel>();
  fake->takes_scale = true;
  LevelRuntime level;
  level.backend = std::make_unique<support::FakeBackend>(fake);
  config::ModelConfig config;
  config.warmup = {{.name = "x alone", .inputs = {{.name = "x", .datatype = "FP32", .dims = {1}}}}};
  ASSERT_TRUE(run_warmup(level, config));
  EXPECT_EQ(fake->scaled, 0);
  config.warmup[0].inputs.push_back({.name = "scale", .datatype = "FP32", .dims = {1}});
  ASSERT_TRUE(run_warmup(level, config));
  EXPECT_EQ(fake->scaled, 1);
}

}  // namespace
}  // namespace gradus::serving
