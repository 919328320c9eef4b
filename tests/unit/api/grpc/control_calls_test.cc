// What clients set over gRPC and who may, and tensors in shared memory in its messages.
#include "api/grpc/control_calls.h"

#include <gmock/gmock.h>
#include <grpc_service.pb.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/grpc/infer_messages.h"
#include "base/log.h"
#include "unit/api/fake_engine.h"
#include "unit/api/shared_object.h"

namespace gradus::api {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string bytes_text(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class ControlCallsTest : public testing::Test {
 protected:
  ControlCallsTest() {
    control_.shared_memory = std::make_unique<SharedMemory>(8);
    control_.permission = Permission::open({.allow_from_loopback = true}).value();
  }

  ControlAnswer answer(const char* method, const google::protobuf::Message& request,
                       const Caller& caller = {.peer = "127.0.0.1"}) {
    const auto calls = control_calls();
    const auto call = std::ranges::find_if(
        calls, [&](const ControlCall& one) { return std::string_view(one.method) == method; });
    return call->answer(request.SerializeAsString(), control_, engine_, "9.8.7", caller);
  }
  template <class Response>
  Response ask(const char* method, const google::protobuf::Message& request) {
    const ControlAnswer given = answer(method, request);
    EXPECT_EQ(given.status, 0) << given.text;
    Response response;
    EXPECT_TRUE(response.ParseFromString(given.text));
    return response;
  }
  ControlAnswer add(const std::string& name, const SharedObject& object, std::uint64_t size) {
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(object.key);
    request.set_byte_size(size);
    return answer("SystemSharedMemoryRegister", request);
  }

  FakeEngine engine_;
  Control control_;
};

TEST_F(ControlCallsTest, RegionsAreRegisteredListedAndLeave) {
  const SharedObject object(64);
  EXPECT_EQ(add("a", object, 64).status, 0);
  EXPECT_EQ(add("a", object, 64).status, 6);  // ALREADY_EXISTS
  EXPECT_EQ(add("b", object, 65).status, 3);
  inference::SystemSharedMemoryStatusRequest which;
  const auto all =
      ask<inference::SystemSharedMemoryStatusResponse>("SystemSharedMemoryStatus", which);
  ASSERT_EQ(all.regions_size(), 1);
  EXPECT_EQ(all.regions().at("a").key(), object.key);
  EXPECT_EQ(all.regions().at("a").byte_size(), 64u);
  which.set_name("b");
  EXPECT_EQ(answer("SystemSharedMemoryStatus", which).status, 5);
  EXPECT_EQ(answer("SystemSharedMemoryUnregister", inference::SystemSharedMemoryUnregisterRequest())
                .status,
            0);
  EXPECT_TRUE(control_.shared_memory->all().empty());
  EXPECT_EQ(answer("CudaSharedMemoryRegister", inference::CudaSharedMemoryRegisterRequest()).status,
            12);
  EXPECT_EQ(
      answer("CudaSharedMemoryUnregister", inference::CudaSharedMemoryUnregisterRequest()).status,
      0);
}

TEST_F(ControlCallsTest, ServerMetadataNamesSharedMemoryOnlyWhereItIsAllowed) {
  const auto names = [this] {
    const auto server = ask<inference::ServerMetadataResponse>("ServerMetadata",
                                                               inference::ServerMetadataRequest());
    EXPECT_EQ(server.version(), "9.8.7");
    return std::vector<std::string>(server.extensions().begin(), server.extensions().end());
  };
  EXPECT_THAT(names(), Contains("system_shared_memory"));
  control_.shared_memory = nullptr;
  EXPECT_THAT(names(), Not(Contains("system_shared_memory")));
  const SharedObject object(64);
  EXPECT_THAT(add("a", object, 64).text, HasSubstr("--allow-client-shm"));
}

TEST_F(ControlCallsTest, OnlyWhoMayChangesLogAndTraces) {
  inference::LogSettingsRequest log;
  (*log.mutable_settings())["log_info"].set_bool_param(false);
  EXPECT_EQ(answer("LogSettings", log, {.peer = "10.0.0.7"}).status, 7);  // PERMISSION_DENIED
  EXPECT_EQ(answer("LogSettings", log, {.peer = "127.0.0.1", .passed_on = true}).status, 7);
  EXPECT_EQ(answer("LogSettings", inference::LogSettingsRequest(), {.peer = "10.0.0.7"}).status, 0)
      << "asking is free";
  EXPECT_TRUE(log::enabled(log::Severity::kInfo));
  const auto before = log::severities();
  const auto set = ask<inference::LogSettingsResponse>("LogSettings", log);
  EXPECT_FALSE(log::enabled(log::Severity::kInfo));
  log::set_severities(before);
  EXPECT_FALSE(set.settings().at("log_info").bool_param());
  EXPECT_TRUE(set.settings().at("log_error").bool_param());
  inference::TraceSettingRequest trace;
  trace.set_model_name("m");
  (*trace.mutable_settings())["trace_rate"].add_value("5");
  EXPECT_EQ(answer("TraceSetting", trace, {.peer = "10.0.0.7"}).status, 7);
  EXPECT_THAT(answer("TraceSetting", trace).text, HasSubstr("--trace-file"));
  trace.clear_settings();
  const auto shown = ask<inference::TraceSettingResponse>("TraceSetting", trace);
  EXPECT_EQ(shown.settings().at("trace_level").value(0), "OFF");
  trace.set_model_name("other");
  EXPECT_EQ(answer("TraceSetting", trace).status, 5);
}

TEST_F(ControlCallsTest, InputsInSharedMemoryHaveNoRawEntry) {
  const SharedObject object(64);
  object.write(bytes_text({1.5F, -2.5F}), 8);
  ASSERT_EQ(add("r", object, 64).status, 0);
  auto message = std::make_shared<inference::ModelInferRequest>();
  for (const char* const name : {"a", "b"}) {
    auto& input = *message->add_inputs();
    input.set_name(name);
    input.set_datatype("FP32");
    input.add_shape(2);
  }
  auto& parameters = *message->mutable_inputs(0)->mutable_parameters();
  parameters["shared_memory_region"].set_string_param("r");
  parameters["shared_memory_offset"].set_int64_param(8);
  parameters["shared_memory_byte_size"].set_uint64_param(8);
  message->add_raw_input_contents(bytes_text({3.0F, 4.0F}));
  auto& output = *message->add_outputs();
  output.set_name("y");
  (*output.mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*output.mutable_parameters())["shared_memory_byte_size"].set_int64_param(16);
  const SharedInputs shared{control_.shared_memory.get(), 8};
  const auto decoded = decode_message(message, shared);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(text_of(decoded->request.inputs[0].tensor.data), bytes_text({1.5F, -2.5F}));
  EXPECT_EQ(text_of(decoded->request.inputs[1].tensor.data), bytes_text({3.0F, 4.0F}));
  EXPECT_THAT(decode_message(message, {shared.memory, 7}).error().message,
              HasSubstr("input 'a': the request's inputs in shared memory are over"));
  EXPECT_THAT(decode_message(message).error().message, HasSubstr("--allow-client-shm"));
  for (auto* const tensor : {message->mutable_inputs(0)->mutable_parameters(),
                             message->mutable_outputs(0)->mutable_parameters()}) {
    (*tensor)["shared_memory_region"].set_string_param("q");
    EXPECT_EQ(decode_message(message, shared).error().code, Code::kNotFound);
    (*tensor)["shared_memory_region"].set_string_param("r");
  }

  serving::Response response{.outputs = {{"y", make_tensor(DType::kUint8, {3}, bytes_of("abc"))}}};
  ASSERT_TRUE(fulfil(decoded->wishes, response));
  EXPECT_EQ(object.read(3), "abc");
  const auto pieces = encode_message(response, Envelope::kNone, decoded->wishes);
  ASSERT_TRUE(pieces);
  std::string text;
  for (const Segment& piece : *pieces) text += text_of(piece.bytes);
  inference::ModelInferResponse sent;
  ASSERT_TRUE(sent.ParseFromString(text));
  EXPECT_EQ(sent.raw_output_contents(0), "");
  EXPECT_EQ(sent.outputs(0).parameters().at("shared_memory_region").string_param(), "r");
  EXPECT_EQ(sent.outputs(0).parameters().at("shared_memory_byte_size").int64_param(), 3);
}

TEST(Peers, AddressesAreTakenOutOfTheirNames) {
  EXPECT_EQ(address_of_peer("ipv4:127.0.0.1:5000"), "127.0.0.1");
  EXPECT_EQ(address_of_peer("ipv6:%5B::1%5D:5000"), "::1");
  EXPECT_EQ(address_of_peer("ipv6:[::ffff:10.0.0.7]:5000"), "::ffff:10.0.0.7");
  EXPECT_EQ(address_of_peer("unix:/tmp/socket"), "");
  EXPECT_EQ(address_of_peer(""), "");
}

}  // namespace
}  // namespace gradus::api
