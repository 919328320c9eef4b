#include "tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorView view(DType dtype, Shape shape, std::span<const std::byte> data) {
  return {dtype, std::move(shape), data};
}

TEST(DType, NamesReadBack) {
  for (int i = 0; i <= static_cast<int>(DType::kBytes); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("fp32"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(ElementCount, KnowsScalarsAndZeroElements) {
  EXPECT_EQ(*element_count({}), 1u);
  EXPECT_EQ(*element_count({0, 16}), 0u);
  EXPECT_EQ(*element_count({2, 3, 4}), 24u);
}

TEST(ElementCount, RefusesNegativesAndOverflow) {
  EXPECT_THAT(element_count({2, -1}).error().message, HasSubstr("negative dimension -1"));
  EXPECT_FALSE(element_count({INT64_MAX, INT64_MAX}).has_value());
  EXPECT_EQ(*element_count({INT64_MAX, 0}), 0u) << "no elements, whatever the other dimension";
}

TEST(ShapeBucket, TellsShapesApartAndNothingElse) {
  const auto bucket = [](std::vector<Shape> shapes) {
    std::vector<TensorView> views;
    for (Shape& shape : shapes) views.push_back({DType::kFp32, std::move(shape), {}});
    return shape_bucket(views);
  };
  EXPECT_EQ(bucket({{1, 8}, {}}), bucket({{1, 8}, {}}));
  EXPECT_NE(bucket({{1, 8}, {}}), bucket({{8, 1}, {}}));
  EXPECT_NE(bucket({{1, 8}}), bucket({{1}, {8}}));
}

TEST(CheckByteSize, SaysWhatCameAndWhatWasExpected) {
  const std::vector<std::byte> bytes(12);
  EXPECT_TRUE(check_byte_size(view(DType::kFp32, {3}, bytes)));
  EXPECT_TRUE(check_byte_size(view(DType::kFp32, {0}, {})));
  EXPECT_EQ(check_byte_size(view(DType::kFp32, {4}, bytes)).error().message,
            "has 12 bytes, shape [4] of FP32 needs 4 x 4");
}

TEST(BytesElements, RoundTripKeepsEveryByte) {
  std::vector<std::byte> data;
  append_bytes_element(data, std::string_view("\xff\x00\xfe", 3));
  append_bytes_element(data, "");
  append_bytes_element(data, std::string(70'000, 'x'));
  const auto elements = bytes_elements(data, 3);
  ASSERT_TRUE(elements);
  EXPECT_THAT(*elements,
              ElementsAre(std::string_view("\xff\x00\xfe", 3), "", std::string(70'000, 'x')));
  EXPECT_TRUE(check_byte_size(view(DType::kBytes, {3}, data)));
}

TEST(BytesElements, RefusesLengthsPastTheEndAndWrongCounts) {
  std::vector<std::byte> data;
  append_bytes_element(data, "abc");
  EXPECT_FALSE(bytes_elements(data, 2));
  EXPECT_FALSE(bytes_elements(std::span(data).first(6), 1));
  EXPECT_FALSE(bytes_elements(std::span(data).first(3), 1));
  EXPECT_FALSE(check_byte_size(view(DType::kBytes, {INT64_MAX}, data)));
}

}  // namespace
}  // namespace gradus
