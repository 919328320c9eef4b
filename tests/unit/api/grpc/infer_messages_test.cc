#include "api/grpc/infer_messages.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpc_service.pb.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace gradus::api {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

ModelInferRequest::InferInputTensor& add_input(ModelInferRequest& message, const char* name,
                                               const char* datatype, std::int64_t size) {
  auto& input = *message.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  input.add_shape(size);
  return input;
}

Result<serving::Request> decode(const ModelInferRequest& message) {
  auto decoded = decode_message(std::make_shared<const ModelInferRequest>(message));
  if (!decoded) return tl::unexpected(std::move(decoded.error()));
  return std::move(decoded->request);
}

std::string error_of(const ModelInferRequest& message) {
  const auto decoded = decode(message);
  if (decoded) return "";
  EXPECT_EQ(decoded.error().code, Code::kInvalid);
  return decoded.error().message;
}

struct TypedCase {
  const char* datatype;
  std::int64_t size;
  void (*fill)(InferTensorContents&);
  std::string bytes;  // "": refused
  std::string error;
};

TEST(DecodeMessage, TypedContentsBecomeTheBytesOfTheirType) {
  using C = InferTensorContents;
  const std::vector<TypedCase> cases = {
      {"BOOL", 2, [](C& c) { c.add_bool_contents(true), c.add_bool_contents(false); },
       std::string("\1\0", 2), ""},
      {"INT8", 2, [](C& c) { c.add_int_contents(-128), c.add_int_contents(127); },
       raw<std::int8_t>({-128, 127}), ""},
      {"INT16", 1, [](C& c) { c.add_int_contents(-32768); }, raw<std::int16_t>({-32768}), ""},
      {"INT32", 1, [](C& c) { c.add_int_contents(-7); }, raw<std::int32_t>({-7}), ""},
      {"INT64", 1, [](C& c) { c.add_int64_contents(-1LL << 40); }, raw<std::int64_t>({-1LL << 40}),
       ""},
      {"UINT8", 1, [](C& c) { c.add_uint_contents(255); }, raw<std::uint8_t>({255}), ""},
      {"UINT16", 1, [](C& c) { c.add_uint_contents(65535); }, raw<std::uint16_t>({65535}), ""},
      {"UINT32", 1, [](C& c) { c.add_uint_contents(7); }, raw<std::uint32_t>({7}), ""},
      {"UINT64", 1, [](C& c) { c.add_uint64_contents(7); }, raw<std::uint64_t>({7}), ""},
      {"FP32", 1, [](C& c) { c.add_fp32_contents(0.5F); }, raw<float>({0.5F}), ""},
      {"FP64", 1, [](C& c) { c.add_fp64_contents(0.5); }, raw<double>({0.5}), ""},
      {"BYTES", 2, [](C& c) { c.add_bytes_contents("ab"), c.add_bytes_contents(""); },
       std::string("\2\0\0\0ab\0\0\0\0", 10), ""},
      {"FP32", 0, [](C&) {}, "", ""},
      {"INT8", 1, [](C& c) { c.add_int_contents(128); }, "", "int_contents[0] is 128"},
      {"UINT8", 1, [](C& c) { c.add_uint_contents(256); }, "", "range of UINT8"},
      {"FP32", 1, [](C& c) { c.add_fp64_contents(1); }, "", "takes fp32_contents"},
      {"FP16", 1, [](C& c) { c.add_fp32_contents(1); }, "", "raw_input_contents"},
      {"BF16", 1, [](C&) {}, "", "raw_input_contents"},
      {"FP32", 2, [](C& c) { c.add_fp32_contents(1); }, "", "has 4 bytes"},
      {"FP32", -1, [](C&) {}, "", "negative"},
      {"FLOAT", 1, [](C&) {}, "", "'FLOAT'"},
  };
  for (const TypedCase& row : cases) {
    SCOPED_TRACE(row.datatype + (" " + row.error));
    ModelInferRequest message;
    row.fill(*add_input(message, "x", row.datatype, row.size).mutable_contents());
    if (!row.error.empty()) {
      EXPECT_THAT(error_of(message), AllOf(HasSubstr("input 'x'"), HasSubstr(row.error)));
      continue;
    }
    const auto decoded = decode(message);
    ASSERT_TRUE(decoded) << decoded.error().message;
    ASSERT_EQ(decoded->inputs.size(), 1U);
    EXPECT_EQ(text_of(decoded->inputs[0].tensor.data), row.bytes);
    EXPECT_THAT(decoded->inputs[0].tensor.shape, ElementsAre(row.size));
  }
}

TEST(DecodeMessage, RawContentsAreViewedWhereTheyLie) {
  auto message = std::make_shared<ModelInferRequest>();
  add_input(*message, "x", "FP32", 100);
  add_input(*message, "s", "BYTES", 1);
  message->add_raw_input_contents(raw(std::vector<float>(100, 0.25F)));
  message->add_raw_input_contents(std::string("\1\0\0\0a", 5));
  const void* const lies = message->raw_input_contents(0).data();
  std::weak_ptr<ModelInferRequest> kept = message;
  auto decoded = decode_message(std::move(message));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->request.inputs[0].tensor.data.data(), lies);
  EXPECT_EQ(decoded->request.inputs[1].name, "s");
  EXPECT_FALSE(kept.expired());
  decoded = {};
  EXPECT_TRUE(kept.expired());
}

// Reads a message that comes in pieces of 7 bytes.
Result<void> read_bytes(const std::string& bytes, InferMessage& to) {
  worker::SharedPool pool({.shared = false});
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), 7);
  return read_message(stream, bytes.size(), pool, to);
}

TEST(ReadMessage, RawTensorsComeBesideTheMessageAndTheRestInIt) {
  ModelInferRequest sent;
  sent.set_model_name("m");
  add_input(sent, "typed", "INT32", 2).mutable_contents()->add_int_contents(-5);
  add_input(sent, "x", "UINT8", 100'000);
  add_input(sent, "none", "FP32", 0);
  sent.add_outputs()->set_name("y");
  (*sent.mutable_parameters())["priority"].set_int64_param(3);
  sent.add_raw_input_contents(std::string(100'000, 'x'));
  sent.add_raw_input_contents("");
  ModelInferRequest later;  // its fields come behind the tensors
  later.set_id("7");
  InferMessage came;
  ASSERT_TRUE(read_bytes(sent.SerializeAsString() + later.SerializeAsString(), came));
  ASSERT_EQ(came.raw.size(), 2);
  EXPECT_EQ(text_of(came.raw[0].bytes), std::string(100'000, 'x'));
  EXPECT_EQ(came.raw[1].bytes.size(), 0);
  sent.clear_raw_input_contents();
  sent.set_id("7");
  EXPECT_EQ(came.message->DebugString(), sent.DebugString());
}

TEST(ReadMessage, WhatIsCutOffIsNoMessageButItsNameIsRead) {
  ModelInferRequest sent;
  sent.set_model_name("m");
  add_input(sent, "x", "UINT8", 20);
  sent.add_raw_input_contents(std::string(20, 'x'));
  const std::string bytes = sent.SerializeAsString();
  const std::size_t between_fields = bytes.size() - 22;
  for (std::size_t size = 4; size < bytes.size(); ++size) {
    if (size == between_fields) continue;
    InferMessage came;
    const auto read = read_bytes(bytes.substr(0, size), came);
    EXPECT_EQ(came.message->model_name(), "m") << size;
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, Code::kInvalid);
  }
  InferMessage came;
  EXPECT_FALSE(read_bytes("\x3a\xff\xff\xff\xff\x07", came));  // a tensor of 2 GiB, it says
}

TEST(ReadMessage, TheLargestMessageIsReadAsAnyOther) {
  const std::string begin("\x3a\x01x\x2a\x00", 5);  // of 2^31 - 1 bytes, it says
  google::protobuf::io::ArrayInputStream stream(begin.data(), static_cast<int>(begin.size()));
  worker::SharedPool pool({.shared = false});
  InferMessage came;
  EXPECT_TRUE(read_message(stream, std::numeric_limits<std::int32_t>::max(), pool, came));
  EXPECT_EQ(came.raw.size(), 1);
  EXPECT_EQ(came.message->inputs_size(), 1);
}

TEST(ReadMessage, RefusesWhatTakesFarMoreToKeepThanToSend) {
  const auto refusal = [](std::string_view field, int times) {
    std::string bytes;
    for (int i = 0; i < times; ++i) bytes += field;
    InferMessage came;
    const auto read = read_bytes(bytes, came);
    return read ? "read" : read.error().message;
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(refusal("\x2a\x00"sv, 4096), "read") << "inputs";
  EXPECT_EQ(refusal("\x2a\x00"sv, 5000), "the request has more than 4096 inputs");
  EXPECT_EQ(refusal("\x3a\x00"sv, 5000), "the request has more than 4096 inputs") << "raw";
  EXPECT_THAT(refusal("\x32\x00"sv, 1 << 20), ::testing::StartsWith("the request has more than"))
      << "outputs";
}

TEST(DecodeMessage, RawAndTypedContentsDoNotMix) {
  ModelInferRequest message;
  add_input(message, "x", "FP32", 1);
  add_input(message, "y", "FP32", 1).mutable_contents()->add_fp32_contents(1);
  message.add_raw_input_contents(raw<float>({1}));
  EXPECT_THAT(error_of(message), AllOf(HasSubstr("input 'y'"), HasSubstr("one of the two forms")));
  message.mutable_inputs(1)->clear_contents();
  EXPECT_THAT(error_of(message), HasSubstr("1 entries for 2 inputs"));
  message.add_raw_input_contents(raw<double>({1}));
  EXPECT_THAT(error_of(message), AllOf(HasSubstr("input 'y'"), HasSubstr("has 8 bytes")));
}

TEST(DecodeMessage, ParametersMeanWhatTheyMeanOverHttp) {
  ModelInferRequest message;
  auto& parameters = *message.mutable_parameters();
  parameters["timeout"].set_string_param("1500");
  parameters["priority"].set_uint64_param(2);
  parameters["tier"].set_string_param("batch");
  parameters["min_level"].set_int64_param(0);
  parameters["strict"].set_bool_param(true);
  parameters["binary_data_output"].set_bool_param(false);
  parameters["my_own"].set_double_param(0.5);
  message.set_model_name("m");
  message.set_model_version("2");
  message.set_id("7");
  message.add_outputs()->set_name("y");
  const auto decoded = decode(message);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->timeout, Duration(std::chrono::microseconds(1500)));
  EXPECT_EQ(decoded->priority, 2U);
  EXPECT_EQ(decoded->tier, config::Tier::kBatch);
  EXPECT_EQ(decoded->max_level, 0);
  EXPECT_EQ(decoded->model + decoded->version + decoded->id, "m27");
  EXPECT_THAT(decoded->outputs, ElementsAre("y"));

  parameters["min_level"].set_int64_param(1);
  EXPECT_THAT(error_of(message), HasSubstr("'min_level' is 1"));
  for (const char* name : {"timeout", "priority", "tier", "min_level", "max_level", "strict"}) {
    message.clear_parameters();
    (*message.mutable_parameters())[name].set_double_param(1);
    EXPECT_THAT(error_of(message), HasSubstr(std::string("'") + name + "' must be")) << name;
  }
  message.clear_parameters();
  (*message.mutable_parameters())["timeout"].set_int64_param(-1);
  EXPECT_THAT(error_of(message), HasSubstr("[0, 31536000000000]"));
  (*message.mutable_parameters())["timeout"].set_string_param("abc");
  EXPECT_THAT(error_of(message),
              HasSubstr("'timeout' must be an int64_param, a uint64_param or a string_param of "
                        "digits in [0, 31536000000000]"));
  for (const bool as_text : {false, true}) {
    auto& none = (*message.mutable_parameters())["timeout"];
    as_text ? none.set_string_param("0") : none.set_int64_param(0);
    const auto untimed = decode(message);
    ASSERT_TRUE(untimed) << untimed.error().message;
    EXPECT_EQ(untimed->timeout, std::nullopt);
  }
}

serving::Response two_outputs() {
  serving::Response response{.model = "m", .version = "3", .id = "7"};
  const std::vector<std::byte> many(10'000, std::byte{7});
  response.outputs.push_back({"large", make_tensor(DType::kUint8, {100, 100}, many)});
  response.outputs.push_back({"empty", make_tensor(DType::kFp32, {0}, {})});
  response.outputs.push_back({"small", make_tensor(DType::kInt8, {1}, {std::byte{9}})});
  response.origin = {.level = 2, .level_name = "cpu-int8", .variant = "model.int8.onnx"};
  response.origin.degraded = true;
  response.origin.run = std::chrono::microseconds(1500);
  response.origin.latency = std::chrono::microseconds(2250);
  return response;
}

std::string joined(const std::vector<Segment>& pieces) {
  std::string text;
  for (const Segment& piece : pieces) text += text_of(piece.bytes);
  return text;
}

void expect_two_outputs(const inference::ModelInferResponse& message) {
  EXPECT_EQ(message.model_name() + message.model_version() + message.id(), "m37");
  ASSERT_EQ(message.outputs_size(), 3);
  EXPECT_EQ(message.outputs(0).name(), "large");
  EXPECT_EQ(message.outputs(0).datatype(), "UINT8");
  EXPECT_THAT(message.outputs(0).shape(), ElementsAre(100, 100));
  EXPECT_THAT(message.raw_output_contents(), ElementsAre(std::string(10'000, '\7'), "", "\t"));
  EXPECT_EQ(message.parameters().at("level").int64_param(), 2);
  EXPECT_EQ(message.parameters().at("variant").string_param(), "model.int8.onnx");
  EXPECT_EQ(message.parameters().at("level_name").string_param(), "cpu-int8");
  EXPECT_TRUE(message.parameters().at("degraded").bool_param());
  EXPECT_EQ(message.parameters().at("run_us").int64_param(), 1500);
  EXPECT_EQ(message.parameters().at("queue_us").int64_param(), 0);
  EXPECT_EQ(message.parameters().at("latency_ms").double_param(), 2.25);
}

TEST(EncodeMessage, LargeOutputsAreSentFromWhereTheyLie) {
  const serving::Response response = two_outputs();
  const auto pieces = encode_message(response, Envelope::kNone);
  ASSERT_TRUE(pieces);
  inference::ModelInferResponse message;
  ASSERT_TRUE(message.ParseFromString(joined(*pieces)));
  expect_two_outputs(message);
  EXPECT_THAT(*pieces, Contains(testing::Field(&Segment::owner, response.outputs[0].tensor.owner)));
}

TEST(EncodeMessage, InAStreamTheAnswerIsWrapped) {
  const auto pieces = encode_message(two_outputs(), Envelope::kStream);
  ASSERT_TRUE(pieces);
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(message.ParseFromString(joined(*pieces)));
  EXPECT_EQ(message.error_message(), "");
  expect_two_outputs(message.infer_response());
  ASSERT_TRUE(message.ParseFromString(joined(encode_stream_error("why", "8"))));
  EXPECT_EQ(message.error_message() + message.infer_response().id(), "why8");
}

TEST(EncodeMessage, OutputsThatDoNotFitTheirShapeAreOurFault) {
  serving::Response response = two_outputs();
  response.outputs[0].tensor.shape = {99};
  const auto pieces = encode_message(response, Envelope::kNone);
  ASSERT_FALSE(pieces);
  EXPECT_EQ(pieces.error().code, Code::kInternal);
  EXPECT_THAT(pieces.error().message, HasSubstr("'large'"));
}

}  // namespace
}  // namespace gradus::api
