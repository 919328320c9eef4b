#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

runtime::Signature one(DType dtype, Shape shape) { return {{{"x", dtype, std::move(shape)}}, {}}; }

TEST(RawRequest, TheBodySettlesTheVariableDimension) {
  const std::string bytes = raw(std::vector<float>{1, 2, 3, 4, 5, 6});
  for (const auto& [model, shape] : {std::pair<Shape, Shape>{{-1, 3}, {2, 3}},
                                     {{3, -1}, {3, 2}},
                                     {{1, 6}, {1, 6}},
                                     {{-1}, {6}}}) {
    Body body = body_of(bytes);
    const std::byte* const data = body.bytes.data();
    const auto decoded = decode_raw_infer("m", "2", std::move(body), one(DType::kFp32, model));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->request.model, "m");
    EXPECT_EQ(decoded->request.version, "2");
    EXPECT_EQ(decoded->request.inputs[0].name, "x");
    EXPECT_EQ(decoded->request.inputs[0].tensor.shape, shape);
    EXPECT_EQ(decoded->request.inputs[0].tensor.data.data(), data) << "not copied";
    EXPECT_NE(decoded->request.storage, nullptr);
    EXPECT_EQ(decoded->forms.at(0), Form::kBinary);
  }
}

TEST(RawRequest, MisalignedBodiesAreCopied) {
  const auto decoded =
      decode_raw_infer("m", "", body_of(raw(std::vector<float>{7}), 1), one(DType::kFp32, {-1}));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(values_of<float>(decoded->request.inputs[0].tensor), ElementsAre(7.0f));
}

TEST(RawRequest, EmptyBodiesAreZeroElements) {
  const auto decoded = decode_raw_infer("m", "", body_of(""), one(DType::kFp32, {-1, 4}));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->request.inputs[0].tensor.shape, ElementsAre(0, 4));
}

TEST(RawRequest, BytesHoldTheBodyAsOneElement) {
  for (const auto& [model, shape] :
       {std::pair<Shape, Shape>{{1}, {1}}, {{-1}, {1}}, {{-1, 1}, {1, 1}}}) {
    const auto decoded = decode_raw_infer("m", "", body_of(std::string_view("a\0\xff", 3)),
                                          one(DType::kBytes, model));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->request.inputs[0].tensor.shape, shape);
    EXPECT_EQ(text_of(decoded->request.inputs[0].tensor.data),
              bytes_tensor({std::string_view("a\0\xff", 3)}));
  }
}

TEST(RawRequest, RefusesWhatCannotBeSettled) {
  struct Case {
    runtime::Signature signature;
    std::size_t size;
    const char* message;
  };
  const std::vector<Case> cases{
      {{}, 4, "the model has 0 inputs; expected exactly 1"},
      {{{{"a", DType::kFp32, {1}}, {"b", DType::kFp32, {1}}}, {}}, 8, "the model has 2 inputs"},
      {one(DType::kFp32, {-1, -1}), 16, "[-1,-1] has more than one variable dimension"},
      {one(DType::kFp32, {-1, 3}), 16, "takes multiples of 3 x 4 bytes, the body has 16"},
      {one(DType::kFp32, {2, 3}), 20, "has 20 bytes, shape [2,3] of FP32 needs 6 x 4"},
      {one(DType::kFp32, {-1, 0}), 4, "takes multiples of 0 x 4 bytes, the body has 4"},
      {one(DType::kFp64, {-1, INT64_C(1) << 61}), 8, "takes multiples of"},
      {one(DType::kFp64, {-1, INT64_MAX, INT64_MAX}), 8, "has too many elements"},
      {one(DType::kBytes, {2}), 8, "[2] cannot hold exactly one BYTES element"},
  };
  for (const Case& c : cases) {
    const auto decoded = decode_raw_infer("m", "", body_of(std::string(c.size, 'x')), c.signature);
    ASSERT_FALSE(decoded) << c.message;
    EXPECT_EQ(decoded.error().code, Code::kInvalid);
    EXPECT_THAT(decoded.error().message, HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace gradus::api
