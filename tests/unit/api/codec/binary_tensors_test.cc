#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string binary_input(std::string_view name, DType dtype, std::string_view shape,
                         std::size_t size) {
  std::string json = "{\"name\":\"" + std::string(name) + "\",\"shape\":" + std::string(shape);
  json += ",\"datatype\":\"" + std::string(dtype_name(dtype));
  return json + "\",\"parameters\":{\"binary_data_size\":" + std::to_string(size) + "}}";
}

constexpr std::array kFixedSize{DType::kBool,   DType::kUint8, DType::kUint16, DType::kUint32,
                                DType::kUint64, DType::kInt8,  DType::kInt16,  DType::kInt32,
                                DType::kInt64,  DType::kFp16,  DType::kFp32,   DType::kFp64,
                                DType::kBf16};

std::string counting_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 37 + 11);
  return bytes;
}

TEST(BinaryTensors, EveryDatatypeArrivesByteForByte) {
  for (const DType dtype : kFixedSize) {
    const std::string bytes = counting_bytes(6 * element_size(dtype));
    const auto decoded =
        decode("{\"inputs\":[" + binary_input("x", dtype, "[2,3]", bytes.size()) + "]}", bytes);
    ASSERT_TRUE(decoded) << decoded.error().message;
    const TensorView& tensor = decoded->request.inputs[0].tensor;
    EXPECT_EQ(tensor.dtype, dtype);
    EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
    EXPECT_EQ(text_of(tensor.data), bytes);
  }
}

TEST(BinaryTensors, BytesElementsMayHoldAnything) {
  const std::string data =
      bytes_tensor({std::string_view("\xff\x00\xfe", 3), "", std::string(70'000, '\x80')});
  const auto decoded =
      decode("{\"inputs\":[" + binary_input("x", DType::kBytes, "[3]", data.size()) + "]}", data);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(text_of(decoded->request.inputs[0].tensor.data), data);
}

TEST(BinaryTensors, AlignedTensorsAreViewsIntoTheBody) {
  const std::string json = "{\"inputs\":[" + binary_input("x", DType::kFp64, "[4]", 32) + "]}";
  const std::string bytes = json + counting_bytes(32);
  Body body = body_of(bytes, body_offset(json.size()));
  const std::byte* const data = body.bytes.data() + json.size();
  const std::weak_ptr<const void> storage = body.storage;
  auto decoded = decode_infer("m", "", std::move(body), json.size());
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->request.inputs[0].tensor.data.data(), data);
  EXPECT_FALSE(storage.expired()) << "the request keeps the body";
  decoded->request.storage.reset();
  EXPECT_TRUE(storage.expired());
}

TEST(BinaryTensors, MisalignedTensorsAreCopiedAndTheBodyLetGo) {
  const std::string json = "{\"inputs\":[" + binary_input("x", DType::kFp32, "[2]", 8) + "]}";
  const std::string data = raw(std::vector<float>{1.5f, -2.0f});
  for (std::size_t shift = 1; shift < 4; ++shift) {
    Body body = body_of(json + data, body_offset(json.size()) + shift);
    const std::weak_ptr<const void> storage = body.storage;
    const auto decoded = decode_infer("m", "", std::move(body), json.size());
    ASSERT_TRUE(decoded) << decoded.error().message;
    const TensorView& tensor = decoded->request.inputs[0].tensor;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.data()) % alignof(float), 0u);
    EXPECT_THAT(values_of<float>(tensor), ElementsAre(1.5f, -2.0f));
    EXPECT_TRUE(storage.expired()) << "nothing points into the body";
  }
}

TEST(BinaryTensors, BodyOffsetAlignsWhatFollowsTheJson) {
  for (std::size_t length = 0; length < 200; ++length) {
    EXPECT_LT(body_offset(length), kBodyAlignment);
    EXPECT_EQ((body_offset(length) + length) % kBodyAlignment, 0u);
  }
  EXPECT_EQ(body_offset(std::nullopt), 0u);
}

TEST(BinaryTensors, JsonAndBinaryInputsMixInJsonOrder) {
  const std::string first = raw(std::vector<float>{0.25f});
  const std::string third = bytes_tensor({"tail"});
  const auto decoded =
      decode("{\"inputs\":[" + binary_input("a", DType::kFp32, "[]", first.size()) +
                 R"(,{"name":"b","datatype":"INT64","shape":[2],"data":[5,6]},)" +
                 binary_input("c", DType::kBytes, "[1]", third.size()) + "]}",
             first + third);
  ASSERT_TRUE(decoded) << decoded.error().message;
  const auto& inputs = decoded->request.inputs;
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_THAT(values_of<float>(inputs[0].tensor), ElementsAre(0.25f));
  EXPECT_THAT(values_of<std::int64_t>(inputs[1].tensor), ElementsAre(5, 6));
  EXPECT_EQ(text_of(inputs[2].tensor.data), third);
}

TEST(BinaryTensors, ZeroElementsTakeZeroBytes) {
  for (const char* shape : {"[0,16]", "[1,0]"}) {
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBytes}) {
      const auto decoded = decode("{\"inputs\":[" + binary_input("x", dtype, shape, 0) + "]}", "");
      ASSERT_TRUE(decoded) << decoded.error().message;
      EXPECT_THAT(decoded->request.inputs[0].tensor.data, IsEmpty());
    }
  }
}

}  // namespace
}  // namespace gradus::api
