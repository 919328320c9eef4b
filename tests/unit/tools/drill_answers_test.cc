#include "tools/drill_answers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace gradus::tools {
namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
RightAnswer within_tolerance(DType dtype, const std::vector<T>& values) {
  const std::string bytes = bytes_of(values);
  return {.tensors = bytes, .outputs = {{dtype, bytes.size()}}, .tolerance = 0.02};
}

TEST(RightAnswer, IsReadFromABinaryAnswer) {
  const std::string json =
      R"({"outputs":[{"name":"a","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}},)"
      R"({"name":"b","datatype":"INT64","shape":[1],"parameters":{"binary_data_size":8}}]})";
  HttpAnswer answer;
  answer.head =
      "HTTP/1.1 200 OK\r\nInference-Header-Content-Length: " + std::to_string(json.size()) +
      "\r\n\r\n";
  answer.body = json + "aaaabbbbbbbb";
  const auto right = right_answer(answer, 0);
  ASSERT_TRUE(right.has_value());
  ASSERT_EQ(right->outputs.size(), 2U);
  EXPECT_EQ(right->outputs[0].dtype, DType::kFp32);
  EXPECT_EQ(right->outputs[1].bytes, 8U);
  EXPECT_EQ(right->tensors, "aaaabbbbbbbb");
  answer.body += "more";
  EXPECT_FALSE(right_answer(answer, 0).has_value());
}

TEST(RightAnswer, NoToleranceMeansToTheBit) {
  RightAnswer right = within_tolerance<float>(DType::kFp32, {1.0F});
  right.tolerance = 0;
  EXPECT_TRUE(agrees(right, bytes_of<float>({1.0F})));
  EXPECT_FALSE(agrees(right, bytes_of<float>({std::nextafter(1.0F, 2.0F)})));
}

TEST(RightAnswer, ToleranceIsAShareOfTheGreatestValue) {
  const auto right = within_tolerance<float>(DType::kFp32, {-10.0F, 0.5F});
  EXPECT_TRUE(agrees(right, bytes_of<float>({-9.9F, 0.65F})));
  EXPECT_FALSE(agrees(right, bytes_of<float>({-10.0F, 0.75F})));
  EXPECT_FALSE(agrees(right, bytes_of<float>({-10.0F})));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(agrees(right, bytes_of<float>({-10.0F, nan})));
  EXPECT_TRUE(agrees(within_tolerance<double>(DType::kFp64, {2.0}), bytes_of<double>({2.03})));
}

TEST(RightAnswer, HalvesAndBrainFloatsAreComparedAsNumbers) {
  const auto half = within_tolerance<std::uint16_t>(DType::kFp16, {0x3c00, 0xc000});  // 1, -2
  EXPECT_TRUE(agrees(half, bytes_of<std::uint16_t>({0x3c10, 0xc000})));               // 1.016
  EXPECT_FALSE(agrees(half, bytes_of<std::uint16_t>({0x3c00, 0x4000})));              // 2
  EXPECT_FALSE(agrees(half, bytes_of<std::uint16_t>({0x3c00, 0x7e00})));              // NaN
  const auto brain = within_tolerance<std::uint16_t>(DType::kBf16, {0x4080});         // 4
  EXPECT_TRUE(agrees(brain, bytes_of<std::uint16_t>({0x4081})));                      // 4.03
  EXPECT_FALSE(agrees(brain, bytes_of<std::uint16_t>({0x4090})));                     // 4.5
}

TEST(RightAnswer, IntegersHaveNoTolerance) {
  const auto right = within_tolerance<std::int64_t>(DType::kInt64, {1000});
  EXPECT_TRUE(agrees(right, bytes_of<std::int64_t>({1000})));
  EXPECT_FALSE(agrees(right, bytes_of<std::int64_t>({1001})));
}

}  // namespace
}  // namespace gradus::tools
