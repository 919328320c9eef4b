#include "batch/padding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace gradus::batch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class T>
T read(DType dtype, double value) {
  const auto element = pad_element(dtype, value);
  EXPECT_TRUE(element) << value;
  T number{};
  if (element) std::memcpy(&number, element->data(), sizeof number);
  return number;
}

TEST(PadElement, HoldsIntegersExactly) {
  EXPECT_EQ(read<std::uint8_t>(DType::kBool, 1), 1);
  EXPECT_EQ(read<std::uint8_t>(DType::kUint8, 255), 255);
  EXPECT_EQ(read<std::uint16_t>(DType::kUint16, 65535), 65535);
  EXPECT_EQ(read<std::uint32_t>(DType::kUint32, 4294967295.0), 4294967295u);
  EXPECT_EQ(read<std::uint64_t>(DType::kUint64, 0x1p63), 1ull << 63);
  EXPECT_EQ(read<std::int8_t>(DType::kInt8, -128), -128);
  EXPECT_EQ(read<std::int16_t>(DType::kInt16, -1), -1);
  EXPECT_EQ(read<std::int32_t>(DType::kInt32, -100), -100);
  EXPECT_EQ(read<std::int64_t>(DType::kInt64, -0x1p63), INT64_MIN);
}

TEST(PadElement, HoldsFloatsToTheNearest) {
  EXPECT_EQ(read<double>(DType::kFp64, -1e-300), -1e-300);
  EXPECT_EQ(read<float>(DType::kFp32, 0.1), 0.1f);
  const struct {
    DType dtype;
    double value;
    int bits;
  } cases[] = {
      {DType::kFp16, 0, 0x0000},
      {DType::kFp16, -0.0, 0x8000},
      {DType::kFp16, 1, 0x3c00},
      {DType::kFp16, -2, 0xc000},
      {DType::kFp16, 65504, 0x7bff},
      {DType::kFp16, -10000, 0xf0e2},
      {DType::kFp16, 0x1p-14, 0x0400},
      {DType::kFp16, 0x1p-24, 0x0001},
      {DType::kFp16, 0x1p-26, 0x0000},
      {DType::kFp16, 0x1.ffcp-15, 0x0400},
      {DType::kFp16, 1 + 0x1p-11, 0x3c00},    // half way: to even
      {DType::kFp16, 1 + 0x1.8p-10, 0x3c02},  // half way: to even
      {DType::kFp16, 0x1.fffp0, 0x4000},      // carries into the exponent
      {DType::kFp16, -HUGE_VAL, 0xfc00},
      {DType::kBf16, 1, 0x3f80},
      {DType::kBf16, -1e9, 0xce6e},
      {DType::kBf16, 0x1p-133, 0x0001},
      {DType::kBf16, HUGE_VAL, 0x7f80},
  };
  for (const auto& c : cases) EXPECT_EQ(read<std::uint16_t>(c.dtype, c.value), c.bits) << c.value;
  EXPECT_TRUE(std::isnan(read<float>(DType::kFp32, NAN)));
  EXPECT_EQ(read<std::uint16_t>(DType::kFp16, NAN) & 0x7fff, 0x7e00);
}

TEST(PadElement, RefusesWhatTheTypeCannotHold) {
  const std::pair<DType, double> cases[] = {
      {DType::kBool, 2},
      {DType::kUint8, 256},
      {DType::kUint8, -1},
      {DType::kInt8, 128},
      {DType::kInt64, 0x1p63},
      {DType::kUint64, 0x1p64},
      {DType::kInt32, 0.5},
      {DType::kInt32, NAN},
      {DType::kInt64, HUGE_VAL},
      {DType::kFp16, 65520},
      {DType::kFp16, -1e9},
      {DType::kFp32, 1e39},
      {DType::kBf16, 3.4e38 * 1.1},
      {DType::kBytes, 0},
  };
  for (const auto& [dtype, value] : cases) {
    const auto element = pad_element(dtype, value);
    ASSERT_FALSE(element) << dtype_name(dtype) << ' ' << value;
    EXPECT_EQ(element.error().code, Code::kInvalid);
    EXPECT_THAT(element.error().message,
                HasSubstr(std::string(dtype_name(dtype)) + " cannot hold"));
  }
}

Model model(std::vector<Port> inputs) { return {std::move(inputs), {}}; }

std::vector<int> padded_dims(const Result<Padding>& padding) {
  std::vector<int> dims;  // 0: not padded
  for (std::size_t i = 0; padding && i < padding->inputs.size(); ++i) {
    dims.push_back(padding->pad(i) == nullptr ? 0 : static_cast<int>(padding->pad(i)->dim));
  }
  return dims;
}

const Port kIds{"input_ids", DType::kInt64, {-1, -1}};
const Port kMask{"attention_mask", DType::kInt64, {-1, -1}};
const Port kTypes{"token_type_ids", DType::kInt64, {-1, -1}};

TEST(PlanPadding, KnowsTransformersByTheirMask) {
  const auto all =
      plan_padding(model({kIds, {"pixels", DType::kFp32, {-1, 3, -1}}, kMask, kTypes}), {});
  EXPECT_THAT(padded_dims(all), ElementsAre(1, 0, 1, 1));
  EXPECT_TRUE(all->any());
  const auto unmasked = plan_padding(model({kIds, kTypes}), {});
  EXPECT_THAT(padded_dims(unmasked), ElementsAre(0, 0));
  EXPECT_FALSE(unmasked->any());
  const Port fixed_mask{"attention_mask", DType::kInt64, {-1, 128}};
  EXPECT_THAT(padded_dims(plan_padding(model({kIds, fixed_mask}), {})), ElementsAre(0, 0));
}

TEST(PlanPadding, TakesTheConfigsInputsAlone) {
  const auto padding =
      plan_padding(model({kIds, kMask, {"mel", DType::kFp32, {-1, 80, -1}}}), {{"mel", -1.5}});
  EXPECT_THAT(padded_dims(padding), ElementsAre(0, 0, 2));
  EXPECT_EQ(padding->pad(2)->element, *pad_element(DType::kFp32, -1.5));
}

TEST(PlanPadding, NamesTheInputThatCannotBePadded) {
  const Model odd = model({kIds,
                           {"image", DType::kFp32, {-1, 3, -1, -1}},
                           {"fixed", DType::kFp32, {-1, 3}},
                           {"text", DType::kBytes, {-1, -1}}});
  const struct {
    const char* name;
    double value;
    const char* why;
  } cases[] = {
      {"tokens", 0, "input 'tokens' cannot be padded: the model has none"},
      {"image", 0, "input 'image' cannot be padded: its shape [-1,3,-1,-1] has 2 variable"},
      {"fixed", 0, "input 'fixed' cannot be padded: its shape [-1,3] has 0 variable"},
      {"text", 0, "input 'text' cannot be padded: BYTES cannot hold"},
      {"input_ids", 0.5, "input 'input_ids' cannot be padded: INT64 cannot hold the value 0.5"},
  };
  for (const auto& c : cases) {
    const auto padding = plan_padding(odd, {{c.name, c.value}});
    ASSERT_FALSE(padding) << c.name;
    EXPECT_EQ(padding.error().code, Code::kInvalid);
    EXPECT_THAT(padding.error().message, HasSubstr(c.why));
  }
}

TEST(LearnTied, FindsTheDimensionsThatFollowTheLength) {
  const Model outputs{{},
                      {{"hidden", DType::kFp32, {-1, -1, 5}},
                       {"pooled", DType::kFp32, {-1, 5}},
                       {"attention", DType::kFp32, {-1, 12, -1, -1}}}};
  const auto tied = learn_tied(outputs, {5, {{1, 5, 5}, {1, 5}, {1, 12, 5, 5}}},
                               {7, {{1, 7, 5}, {1, 5}, {1, 12, 7, 7}}});
  ASSERT_TRUE(tied);
  EXPECT_THAT(*tied, ElementsAre(ElementsAre(1), IsEmpty(), ElementsAre(2, 3)));
}

TEST(LearnTied, RefusesWhatCannotBeCutBack) {
  const Model outputs{{}, {{"y", DType::kFp32, {-1, -1}}}};
  EXPECT_THAT(learn_tied(outputs, {4, {{1, 4}}}, {6, {{1, 6}}}).value(),
              ElementsAre(ElementsAre(1)));
  const std::pair<Shape, Shape> cases[] = {
      {{1, 8}, {1, 12}}, {{1, 3}, {1, 6}}, {{1, 4}, {1, 5}}, {{4}, {6}}, {{1, 4}, {1, 6, 6}}};
  for (const auto& [one, other] : cases) {
    const auto tied = learn_tied(outputs, {4, {one}}, {6, {other}});
    ASSERT_FALSE(tied) << shape_text(one) << shape_text(other);
    EXPECT_THAT(tied.error().message,
                HasSubstr("output 'y' has shape " + shape_text(one) + " for length 4 and " +
                          shape_text(other) + " for length 6"));
  }
}

}  // namespace
}  // namespace gradus::batch
