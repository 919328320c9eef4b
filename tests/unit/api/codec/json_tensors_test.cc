#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class T>
std::vector<T> read(std::string_view datatype, std::string_view shape, std::string_view data) {
  const auto decoded = decode(one_input(datatype, shape, "\"data\":" + std::string(data)));
  EXPECT_TRUE(decoded) << decoded.error().message;
  if (!decoded || decoded->request.inputs.size() != 1) return {};
  const NamedView& input = decoded->request.inputs[0];
  EXPECT_EQ(input.name, "x");
  EXPECT_EQ(dtype_name(input.tensor.dtype), datatype);
  EXPECT_EQ(shape_text(input.tensor.shape), shape);
  EXPECT_TRUE(check_byte_size(input.tensor));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(input.tensor.data.data()) % alignof(T), 0u);
  return values_of<T>(input.tensor);
}

TEST(JsonTensors, EveryDatatypeHoldsItsExtremes) {
  EXPECT_THAT(read<std::uint8_t>("BOOL", "[3]", "[true,false,true]"), ElementsAre(1, 0, 1));
  EXPECT_THAT(read<std::uint8_t>("UINT8", "[2]", "[0,255]"), ElementsAre(0, 255));
  EXPECT_THAT(read<std::uint16_t>("UINT16", "[2]", "[0,65535]"), ElementsAre(0, 65535));
  EXPECT_THAT(read<std::uint32_t>("UINT32", "[2]", "[0,4294967295]"), ElementsAre(0u, 4294967295u));
  EXPECT_THAT(read<std::uint64_t>("UINT64", "[2]", "[0,18446744073709551615]"),
              ElementsAre(0u, UINT64_MAX));
  EXPECT_THAT(read<std::int8_t>("INT8", "[2]", "[-128,127]"), ElementsAre(-128, 127));
  EXPECT_THAT(read<std::int16_t>("INT16", "[2]", "[-32768,32767]"), ElementsAre(-32768, 32767));
  EXPECT_THAT(read<std::int32_t>("INT32", "[2]", "[-2147483648,2147483647]"),
              ElementsAre(INT32_MIN, INT32_MAX));
  EXPECT_THAT(read<std::int64_t>("INT64", "[2]", "[-9223372036854775808,9223372036854775807]"),
              ElementsAre(INT64_MIN, INT64_MAX));
  EXPECT_THAT(read<float>("FP32", "[4]", "[1,-2.5,3.4028234663852886e38,1e-45]"),
              ElementsAre(1.0f, -2.5f, std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::denorm_min()));
  EXPECT_THAT(read<double>("FP64", "[3]", "[0.1,1.7976931348623157e308,5e-324]"),
              ElementsAre(0.1, std::numeric_limits<double>::max(),
                          std::numeric_limits<double>::denorm_min()));
}

TEST(JsonTensors, NestingIsFlattenedRowMajorWhateverItsForm) {
  for (const char* data : {"[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]", "[[1,2],[3,4],[5,6]]",
                           "[[[[1]],2,[3,[4,[5]]]],6]", " [ 1 , [ 2,3 ] ,\n\t[ ] , [4,5,6] ] "}) {
    EXPECT_THAT(read<std::int32_t>("INT32", "[2,3]", data), ElementsAre(1, 2, 3, 4, 5, 6)) << data;
  }
}

TEST(JsonTensors, ScalarsAndZeroElements) {
  EXPECT_THAT(read<float>("FP32", "[]", "[1.5]"), ElementsAre(1.5f));
  EXPECT_THAT(read<float>("FP32", "[]", "1.5"), ElementsAre(1.5f));
  EXPECT_THAT(read<float>("FP32", "[0,16]", "[]"), IsEmpty());
  EXPECT_THAT(read<float>("FP32", "[2,0]", "[[],[]]"), IsEmpty());
  const auto without_data = decode(one_input("INT64", "[1,0]", ""));
  ASSERT_TRUE(without_data);
  EXPECT_THAT(without_data->request.inputs[0].tensor.shape, ElementsAre(1, 0));
}

TEST(JsonTensors, NanAndInfinitiesComeQuotedOrBare) {
  for (const char* data : {R"(["NaN","Infinity","-Infinity",-0.0])", "[NaN,Infinity,-Infinity,-0]",
                           "[[ NaN ,\nInfinity ],[ -Infinity ], [-0.0]]"}) {
    for (const bool wide : {false, true}) {
      std::vector<double> values;
      if (wide) {
        values = read<double>("FP64", "[4]", data);
      } else {
        for (const float value : read<float>("FP32", "[4]", data)) values.push_back(value);
      }
      ASSERT_EQ(values.size(), 4u);
      EXPECT_TRUE(std::isnan(values[0]));
      EXPECT_EQ(values[1], std::numeric_limits<double>::infinity());
      EXPECT_EQ(values[2], -std::numeric_limits<double>::infinity());
      EXPECT_TRUE(values[3] == 0 && std::signbit(values[3])) << "-0.0 keeps its sign";
    }
  }
}

// 1 + 2^-24 lies halfway between two floats; a little above it, the nearest double still is that
// halfway point, and rounding it again would go down to 1.
TEST(JsonTensors, FloatsAreRoundedOnce) {
  const float above = std::nextafter(1.0f, 2.0f);
  EXPECT_THAT(read<float>("FP32", "[2]",
                          "[1.000000059604644775390625,"
                          "1.00000005960464477539062500000000000001]"),
              ElementsAre(1.0f, above));
  EXPECT_THAT(read<float>("FP32", "[2]", "[3.4028235677973362e38,1e-60]"),
              ElementsAre(std::numeric_limits<float>::max(), 0.0f));
}

TEST(JsonTensors, AnyFloatReadsBackFromItsShortestForm) {
  std::mt19937 random(7);
  std::string data = "[";
  std::vector<float> wanted;
  while (wanted.size() < 20'000) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    char text[32];
    data.append(text, std::to_chars(text, text + sizeof text, value).ptr).append(",");
    wanted.push_back(value);
  }
  data.back() = ']';
  EXPECT_EQ(read<float>("FP32", "[20000]", data), wanted);
}

TEST(JsonTensors, StringsKeepEscapesAndUnicode) {
  const auto decoded = decode(one_input(
      "BYTES", "[2,3]",
      R"("data":[["plain","","q\"\\\/\b\f\n\r\t"],["\u0000\u00e9","\ud83d\ude00","ÿ日本"]])"));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const auto elements = bytes_elements(decoded->request.inputs[0].tensor.data, 6);
  ASSERT_TRUE(elements);
  EXPECT_THAT(*elements,
              ElementsAre("plain", "", "q\"\\/\b\f\n\r\t", std::string_view("\0\xC3\xA9", 3),
                          "\xF0\x9F\x98\x80", "\xC3\xBF\xE6\x97\xA5\xE6\x9C\xAC"));
}

TEST(JsonTensors, MembersComeInAnyOrder) {
  const auto decoded = decode(
      R"({"outputs":null,"inputs":[{"data":[["a","b"],["c","d"]],"x":{"y":[1,{"z":null}]},
      "shape":[4],"parameters":null,"datatype":"BYTES","name":"first"},
      {"shape":[2],"data":[1,2],"name":"second","datatype":"INT8"}],"id":null})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_EQ(decoded->request.inputs.size(), 2u);
  EXPECT_EQ(text_of(decoded->request.inputs[0].tensor.data), bytes_tensor({"a", "b", "c", "d"}));
  EXPECT_EQ(decoded->request.inputs[1].name, "second");
  EXPECT_THAT(values_of<std::int8_t>(decoded->request.inputs[1].tensor), ElementsAre(1, 2));
  EXPECT_EQ(decoded->request.id, "");
}

// Late data is parsed a second time; unescaping needs room in the parser's buffer.
TEST(JsonTensors, LateDataOfManyEscapedStringsIsWhole) {
  std::string data = R"("name":"\u0078","data":[)";
  for (int i = 0; i < 5000; ++i) data += R"("\n\n\n\n\n\n\n\n",)";
  data.back() = ']';
  const auto decoded =
      decode(R"({"inputs":[{)" + data + R"(,"shape":[5000],"datatype":"BYTES"}]})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->request.inputs[0].name, "x");
  EXPECT_EQ(decoded->request.inputs[0].tensor.data.size(), 5000u * 12);
}

TEST(JsonTensors, WhatLiesBehindTheBodyDoesNotMatter) {
  const std::string json = one_input("INT32", "[2]", "\"data\":[12,34]");
  for (const char filler : {'}', ']', ',', '"', '5', '\0', '\xff'}) {
    for (const std::size_t after : {0u, 1u, 63u, 64u, 200u}) {
      const auto whole = decode_infer("m", "", body_of(json, 0, after, filler), std::nullopt);
      ASSERT_TRUE(whole) << whole.error().message;
      EXPECT_THAT(values_of<std::int32_t>(whole->request.inputs[0].tensor), ElementsAre(12, 34));
      for (std::size_t cut = 1; cut < json.size(); ++cut) {
        const std::string_view part(json.data(), json.size() - cut);
        EXPECT_FALSE(decode_infer("m", "", body_of(part, 0, after, filler), std::nullopt))
            << part << " before " << filler;
      }
    }
  }
}

TEST(JsonTensors, HugeShapesCostNoMemory) {
  const auto decoded = decode(one_input("FP64", "[4000000000,1000000]", "\"data\":[1,2]"));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("data has 2 elements, shape"));
}

TEST(JsonTensors, DepthIsBounded) {
  const auto nested = [](std::size_t levels) {
    return one_input("INT32", "[1]",
                     "\"data\":" + std::string(levels, '[') + "7" + std::string(levels, ']'));
  };
  EXPECT_TRUE(decode(nested(97))) << "the input's object is the third level";
  const auto deeper = decode(nested(98));
  ASSERT_FALSE(deeper);
  EXPECT_THAT(deeper.error().message, HasSubstr("nested deeper than 100 levels"));
  EXPECT_FALSE(decode(nested(5), DecodeLimits{.max_json_depth = 7}));
  EXPECT_TRUE(decode(nested(5), DecodeLimits{.max_json_depth = 8}));
  EXPECT_FALSE(decode(nested(100'000)));
}

}  // namespace
}  // namespace gradus::api
