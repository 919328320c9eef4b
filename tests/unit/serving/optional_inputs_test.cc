// Inputs that a request may leave out: who runs together, and with what.
#include "unit/serving/one_level_fixture.h"

namespace gradus::serving {
namespace {

using ::testing::ElementsAre;

class OptionalInputsTest : public OneLevelTest {
 protected:
  /// Its optional input has a number for each row.
  void one_level_with_scale(std::uint32_t max_batch_size) {
    config_.declared = {
        .max_batch_size = 8,
        .inputs =
            {{.name = "scale", .datatype = "FP32", .dims = {{}}, .reshape = {}, .optional = true}},
        .outputs = {}};
    levels_[1]->takes_scale = true;
    one_level(max_batch_size);
  }
};

TEST_F(OptionalInputsTest, WhatGivesOtherOptionalInputsRunsInAnotherBatch) {
  one_level_with_scale(8);
  EXPECT_EQ(levels_[1]->scaled, 0) << "warm-up and comparison leave it out";
  Gate gate;
  auto running = hold(gate);
  const float values[] = {1, 2, 3, 4, 5};
  const float scales[] = {10, 20, 30, 40, 50};
  std::vector<std::future<Result<Response>>> answers;
  for (std::size_t i = 0; i < 5; ++i) {
    Request one = many({&values[i], 1});
    if (i % 2 == 0) {
      one.inputs.push_back({"scale", {DType::kFp32, {1}, std::as_bytes(std::span(&scales[i], 1))}});
    }
    answers.push_back(send(one));
  }
  gate.open();
  EXPECT_TRUE(running.get());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto response = answers[i].get();
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(value(*response), 3 * values[i] * (i % 2 == 0 ? scales[i] : 1));
  }
  EXPECT_THAT(batches(), ElementsAre(1, 3, 2));
}

TEST_F(OptionalInputsTest, ALargeRequestRunsInPartsWithItsOptionalInputs) {
  one_level_with_scale(2);
  const float values[] = {1, 2, 3}, scales[] = {10, 20, 30};
  Request large = many(values);
  large.inputs.push_back({"scale", {DType::kFp32, {3}, std::as_bytes(std::span(scales))}});
  const auto response = infer(large);
  ASSERT_TRUE(response) << response.error().message;
  float answer[3] = {};
  std::memcpy(answer, response->outputs.at(0).tensor.data.data(), sizeof answer);
  EXPECT_THAT(answer, ElementsAre(30, 120, 270));
  EXPECT_THAT(batches(), ElementsAre(2, 1));
}

TEST_F(OptionalInputsTest, AnOptionalInputThatMayHaveNoBatchRunsAlone) {
  config_.declared.inputs = {
      {.name = "scale", .datatype = "FP32", .dims = {}, .reshape = {}, .optional = true}};
  levels_[1]->takes_scale = true;
  one_level(2);
  Gate gate;
  auto running = hold(gate);
  const float values[] = {1, 2, 3}, scales[] = {10, 20, 30};
  std::vector<std::future<Result<Response>>> answers;
  for (int i = 0; i < 2; ++i) {
    Request one = many(values);
    one.inputs.push_back({"scale", {DType::kFp32, {3}, std::as_bytes(std::span(scales))}});
    answers.push_back(send(one));
  }
  gate.open();
  EXPECT_TRUE(running.get());
  for (auto& answer : answers) EXPECT_TRUE(answer.get());
  EXPECT_THAT(batches(), ElementsAre(1, 3, 3)) << "nor in parts";
}

}  // namespace
}  // namespace gradus::serving
