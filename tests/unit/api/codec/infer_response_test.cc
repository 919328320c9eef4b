#include "api/codec/infer_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr OutputForms kJson{};
const OutputForms kBinary{Form::kBinary, {}};

Tensor tensor(DType dtype, Shape shape, std::string_view data) {
  const auto bytes = std::as_bytes(std::span(data.data(), data.size()));
  return make_tensor(dtype, std::move(shape), {bytes.begin(), bytes.end()});
}

template <class T>
Tensor tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  return tensor(dtype, std::move(shape), raw(values));
}

serving::Response answer(std::vector<NamedTensor> outputs) {
  serving::Response response;
  response.model = "m";
  response.version = "3";
  response.outputs = std::move(outputs);
  response.origin = {1, "cpu", "model.onnx", true, 12us, 3456us, 4'500us};
  return response;
}

// The `data` of the only output, as written.
std::string data_of(Tensor output) {
  const auto encoded = encode_infer(answer({{"y", std::move(output)}}), kJson);
  EXPECT_TRUE(encoded) << encoded.error().message;
  if (!encoded) return "";
  EXPECT_EQ(json_fault(encoded->head), "") << encoded->head;
  EXPECT_EQ(encoded->header_length, std::nullopt);
  const auto start = encoded->head.find("\"data\":") + 7;
  return encoded->head.substr(start, encoded->head.size() - 3 - start);
}

std::string whole(const EncodedInfer& encoded) {
  std::string body = encoded.head;
  for (const Segment& segment : encoded.segments) body += text_of(segment.bytes);
  return body;
}

TEST(InferResponse, SaysWhichLevelAnswered) {
  serving::Response response = answer({{"y", tensor<float>(DType::kFp32, {1, 2}, {1, 0.1f})}});
  response.id = "call \"7\"";
  const auto encoded = encode_infer(response, kJson);
  ASSERT_TRUE(encoded) << encoded.error().message;
  EXPECT_EQ(encoded->head,
            R"({"model_name":"m","model_version":"3","id":"call \"7\"","parameters":{"level":1,)"
            R"("level_name":"cpu","variant":"model.onnx","degraded":true,"queue_us":12,)"
            R"("run_us":3456,"latency_ms":4.5},"outputs":[{"name":"y","datatype":"FP32",)"
            R"("shape":[1,2],"data":[1.0,0.1]}]})");
  EXPECT_THAT(encoded->segments, IsEmpty());
  response.id.clear();
  response.origin.degraded = false;
  const auto other = encode_infer(response, kJson);
  EXPECT_THAT(other->head, Not(HasSubstr("\"id\"")));
  EXPECT_THAT(other->head, HasSubstr("\"degraded\":false"));
}

TEST(InferResponse, EveryDatatypeHasItsJsonForm) {
  EXPECT_EQ(data_of(tensor(DType::kBool, {3}, std::string_view("\1\0\7", 3))), "[true,false,true]");
  EXPECT_EQ(data_of(tensor<std::uint8_t>(DType::kUint8, {2}, {0, 255})), "[0,255]");
  EXPECT_EQ(data_of(tensor<std::uint16_t>(DType::kUint16, {1}, {65535})), "[65535]");
  EXPECT_EQ(data_of(tensor<std::uint32_t>(DType::kUint32, {1}, {UINT32_MAX})), "[4294967295]");
  EXPECT_EQ(data_of(tensor<std::uint64_t>(DType::kUint64, {1}, {UINT64_MAX})),
            "[18446744073709551615]");
  EXPECT_EQ(data_of(tensor<std::int8_t>(DType::kInt8, {2}, {-128, 127})), "[-128,127]");
  EXPECT_EQ(data_of(tensor<std::int16_t>(DType::kInt16, {1}, {INT16_MIN})), "[-32768]");
  EXPECT_EQ(data_of(tensor<std::int32_t>(DType::kInt32, {}, {INT32_MIN})), "[-2147483648]");
  EXPECT_EQ(data_of(tensor<std::int64_t>(DType::kInt64, {2}, {INT64_MIN, INT64_MAX})),
            "[-9223372036854775808,9223372036854775807]");
  EXPECT_EQ(data_of(tensor<double>(DType::kFp64, {3}, {0.1, 1e300, -2})), "[0.1,1e+300,-2.0]");
  EXPECT_EQ(
      data_of(tensor(DType::kBytes, {2}, bytes_tensor({"a\"\n", std::string_view("\0é", 3)}))),
      R"(["a\"\n","\u0000é"])");
  EXPECT_EQ(data_of(tensor(DType::kFp32, {0, 16}, "")), "[]");
}

TEST(InferResponse, NanInfinitiesAndNegativeZeroStayValidJson) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(data_of(tensor<float>(DType::kFp32, {5}, {kNan, kInf, -kInf, -0.0f, 0.0f})),
            R"(["NaN","Infinity","-Infinity",-0.0,0.0])");
  EXPECT_EQ(data_of(tensor<double>(DType::kFp64, {4}, {kNan, kInf, -kInf, -0.0})),
            R"(["NaN","Infinity","-Infinity",-0.0])");
}

// What a client reads from an answer it can send back as an input, to the last bit.
TEST(InferResponse, WrittenNumbersReadBackExactly) {
  std::mt19937_64 random(11);
  std::vector<float> floats(10'000);
  std::vector<double> doubles(10'000);
  for (float& value : floats) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  for (double& value : doubles) value = std::bit_cast<double>(random());
  for (float& value : floats) value = std::isnan(value) ? 1.0f : value;
  for (double& value : doubles) value = std::isnan(value) ? 1.0 : value;
  for (const Tensor& original :
       {tensor(DType::kFp32, {10'000}, floats), tensor(DType::kFp64, {10'000}, doubles)}) {
    const auto back =
        decode(one_input(dtype_name(original.dtype), "[10000]", "\"data\":" + data_of(original)));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(text_of(back->request.inputs[0].tensor.data), text_of(original.data));
  }
}

TEST(InferResponse, BinaryOutputsAreTheRuntimesOwnMemory) {
  Tensor first = tensor<float>(DType::kFp32, {2}, {1, 2});
  Tensor second = tensor(DType::kBytes, {1}, bytes_tensor({std::string_view("\xff\x00\xfe", 3)}));
  const std::byte* const memory = first.data.data();
  const std::weak_ptr<const void> owner = first.owner;
  auto encoded =
      encode_infer(answer({{"a", std::move(first)},
                           {"b", tensor<std::int8_t>(DType::kInt8, {1}, {7})},
                           {"c", second}}),
                   OutputForms{Form::kJson, {Form::kBinary, Form::kJson, Form::kBinary}});
  ASSERT_TRUE(encoded) << encoded.error().message;
  ASSERT_EQ(encoded->segments.size(), 2u);
  EXPECT_EQ(encoded->segments[0].bytes.data(), memory);
  EXPECT_EQ(encoded->segments[0].bytes.size(), 8u);
  EXPECT_EQ(text_of(encoded->segments[1].bytes), text_of(second.data));
  EXPECT_EQ(encoded->header_length, encoded->head.size());
  EXPECT_THAT(encoded->head,
              HasSubstr(R"({"name":"a","datatype":"FP32","shape":[2],)"
                        R"("parameters":{"binary_data_size":8}},{"name":"b","datatype":"INT8",)"
                        R"("shape":[1],"data":[7]},{"name":"c","datatype":"BYTES","shape":[1],)"
                        R"("parameters":{"binary_data_size":7}}]})"));
  EXPECT_FALSE(owner.expired()) << "the segment keeps the memory";
  encoded->segments.clear();
  EXPECT_TRUE(owner.expired());
}

TEST(InferResponse, EveryDatatypeLeavesByteForByte) {
  for (int i = 0; i <= static_cast<int>(DType::kBytes); ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string data = dtype == DType::kBytes
                                 ? bytes_tensor({"", std::string(70'000, '\xfe')})
                                 : std::string(2 * element_size(dtype), '\xa5');
    const auto encoded = encode_infer(answer({{"y", tensor(dtype, {2}, data)}}), kBinary);
    ASSERT_TRUE(encoded) << encoded.error().message;
    EXPECT_EQ(whole(*encoded).substr(*encoded->header_length), data);
  }
}

TEST(InferResponse, EmptyBinaryOutputsNeedNoHeader) {
  const auto empty = encode_infer(answer({{"y", tensor(DType::kFp16, {0, 16}, "")}}), kBinary);
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_EQ(empty->header_length, std::nullopt);
  EXPECT_THAT(empty->segments, IsEmpty());
  EXPECT_THAT(empty->head, HasSubstr(R"("shape":[0,16],"parameters":{"binary_data_size":0})"));
}

TEST(InferResponse, RefusesJsonForWhatHasNone) {
  for (const Tensor& output :
       {tensor(DType::kFp16, {1}, "ab"), tensor(DType::kBf16, {1}, "ab"),
        tensor(DType::kBytes, {2}, bytes_tensor({"ok", std::string_view("\xff\x00", 2)})),
        tensor(DType::kBytes, {1}, bytes_tensor({"\xed\xa0\x80"}))}) {
    const auto encoded = encode_infer(answer({{"y", output}}), kJson);
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code, Code::kInvalid);
    EXPECT_THAT(encoded.error().message, HasSubstr("output 'y': "));
    EXPECT_THAT(encoded.error().message, HasSubstr("binary_data"));
    EXPECT_TRUE(encode_infer(answer({{"y", output}}), kBinary));
  }
}

TEST(InferResponse, WrongSizesFromARuntimeAreOurFault) {
  const auto encoded = encode_infer(answer({{"y", tensor(DType::kFp32, {2}, "four")}}), kBinary);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code, Code::kInternal);
}

}  // namespace
}  // namespace gradus::api
