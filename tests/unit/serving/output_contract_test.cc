#include "serving/output_contract.h"

#include <gtest/gtest.h>

namespace gradus::serving {
namespace {

Tensor tensor(Shape shape) { return {DType::kFp32, std::move(shape), {}, {}}; }

runtime::Signature signature(Shape input, Shape output) {
  return {.inputs = {{"x", DType::kFp32, std::move(input)}},
          .outputs = {{"y", DType::kFp32, std::move(output)}}};
}

bool keeps(const OutputContract& contract, Shape shape) {
  const std::size_t wanted = 0;
  const Tensor came = tensor(std::move(shape));
  return contract.check({&wanted, 1}, {&came, 1}).has_value();
}

OutputContract learned(Shape input, Shape output, Shape seen) {
  const Tensor came = tensor(std::move(seen));
  return {signature(std::move(input), std::move(output)), {&came, 1}};
}

TEST(OutputContract, HoldsFixedShapesToTheirDeclarationOnceARunConfirmsIt) {
  const OutputContract contract = learned({1, 8}, {1, 4}, {1, 4});
  EXPECT_TRUE(keeps(contract, {1, 4}));
  EXPECT_FALSE(keeps(contract, {1, 2}));
  EXPECT_FALSE(keeps(contract, {4}));
}

TEST(OutputContract, ForgetsADeclarationThatTheRunBelies) {
  const OutputContract contract = learned({1, 8}, {1, 4}, {1, 6});
  EXPECT_TRUE(keeps(contract, {1, 6}));
  EXPECT_TRUE(keeps(contract, {1, 3}));
  EXPECT_FALSE(keeps(contract, {2, 6})) << "the first dimension was confirmed";
  EXPECT_TRUE(keeps(learned({1, 8}, {1, 4}, {4}), {7, 7, 7})) << "not even the rank was true";
}

TEST(OutputContract, LeavesTheFirstDimensionOpenWhereTheBatchIs) {
  const OutputContract contract = learned({-1, 8}, {1, 4}, {1, 4});
  EXPECT_TRUE(keeps(contract, {3, 4})) << "declared 1, but it follows the batch";
  EXPECT_FALSE(keeps(contract, {3, 2}));
}

TEST(OutputContract, PromisesNothingWhereOtherDimensionsVary) {
  EXPECT_TRUE(keeps(learned({-1, 3, -1, -1}, {1, 4}, {1, 4}), {1, 2}));
}

TEST(OutputContract, NamesTheOutputAndBothShapes) {
  const OutputContract contract = learned({1, 8}, {1, 4}, {1, 4});
  const std::size_t wanted = 0;
  const Tensor came = tensor({1, 2});
  EXPECT_EQ(contract.check({&wanted, 1}, {&came, 1}).error().message,
            "output 'y' has shape [1,2], [1,4] was promised");
}

}  // namespace
}  // namespace gradus::serving
