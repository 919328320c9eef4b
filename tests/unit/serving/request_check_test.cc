#include "serving/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gradus::serving
